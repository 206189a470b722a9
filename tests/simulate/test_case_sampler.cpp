#include "simulate/case_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "megaflux/base/check.h"
#include "simulate/distribution.h"
#include "simulate/model_shapes.h"

namespace megaflux::simulate {
namespace {

TEST(CaseSampler, DrawsDistinctPlacesInOrder) {
  const std::vector<int64_t> places = draw_places(1000, 100, 3);
  EXPECT_EQ(places.size(), 100u);
  EXPECT_TRUE(std::is_sorted(places.begin(), places.end()));
  EXPECT_EQ(std::set<int64_t>(places.begin(), places.end()).size(), 100u);
  EXPECT_GE(places.front(), 0);
  EXPECT_LT(places.back(), 1000);
  EXPECT_EQ(places, draw_places(1000, 100, 3));
  EXPECT_NE(places, draw_places(1000, 100, 4));
  EXPECT_EQ(draw_places(5, 100, 3), (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

TEST(CaseSampler, ScalingKeepsProportionsAndSources) {
  const std::vector<int32_t> rows = {3, 0, 1, 0, 3, 1};
  const LoadTable scaled = scaled_loads(LoadTable(2, 3, rows), 0, 400);
  EXPECT_EQ(scaled.total_rows(), 800);
  EXPECT_EQ(scaled.rows(0, 0), 300);
  EXPECT_EQ(scaled.rows(1, 0), 0);
  EXPECT_EQ(scaled.rows(1, 1), 300);
  EXPECT_EQ(scaled.rows(0, 2), 100);
  EXPECT_TRUE(scaled.has_sources());
  // At most one row of a token: 200 tokens of K = 4 leave room for 200 rows an expert, though only
  // three experts have rows.
  EXPECT_EQ(scaled_loads(LoadTable(2, 3, rows), 4, 400).total_rows(), 800);
}

TEST(CaseSampler, ScalingLeavesEmptyStepsAndZeroAlone) {
  const std::vector<int64_t> totals = {5, 3}, none = {0, 0};
  EXPECT_EQ(scaled_loads(LoadTable::from_totals(2, totals), 1, 0).total_rows(), 8);
  EXPECT_EQ(scaled_loads(LoadTable::from_totals(2, none), 1, 64).total_rows(), 0);
}

TEST(Distribution, NearestRank) {
  std::vector<float> samples = {4, 1, 3, 2};
  EXPECT_EQ(distribution_of(samples),
            (Distribution{.median = 2, .p90 = 4, .p99 = 4, .max = 4, .mean = 2.5}));
  EXPECT_EQ(distribution_of({}), Distribution{});
  std::vector<double> hundred(100);
  std::iota(hundred.begin(), hundred.end(), 1);
  EXPECT_EQ(percentile(hundred, 50), 50);
  EXPECT_EQ(percentile(hundred, 99), 99);
  EXPECT_EQ(percentile(hundred, 100), 100);
  EXPECT_EQ(percentile(hundred, 0), 1);
  EXPECT_EQ(percentile({3, 1, 2}, 40), 2) << "1.2 of 3 samples are more than one";
}

TEST(ModelShapes, NamesAndNumbers) {
  EXPECT_EQ(parse_model("--model", "dsv3").hidden, 7168);
  EXPECT_EQ(parse_model("--model", "glm4.7").num_experts, 160);
  const ModelShape own = parse_model("--model", "1024,512,4");
  EXPECT_EQ(own.hidden, 1024);
  EXPECT_EQ(own.inter, 512);
  EXPECT_EQ(own.topk, 4);
  EXPECT_EQ(own.num_experts, 0);
  EXPECT_EQ(shape_for(own, 32, 0).topk, 4);
  EXPECT_EQ(shape_for(own, 32, 2).topk, 2);
  for (const char* text : {"dsv4", "", "1,2", "1,2,3,4", "1,2,x", "0,2,3", "1,65537,3", "1,2,65",
                           "1,,3", "1,2,3,", " 1,2,3", "99999999999,2,3"}) {
    EXPECT_THROW(parse_model("--model", text), Error) << text;
  }
}

}  // namespace
}  // namespace megaflux::simulate
