#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "megaflux/base/rng.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/moe/route_family.h"
#include "moe/expect_error.h"

namespace megaflux {
namespace {

RouteRequest request_of(RouteFamily family, int32_t experts, int32_t topk, int32_t ranks,
                        int32_t tokens) {
  return {.family = family,
          .num_experts = experts,
          .topk = topk,
          .num_ranks = ranks,
          .tokens_per_rank = tokens};
}

// Rows of counts whose imbalance rises with the row number, hottest expert somewhere else in each
// row.
std::vector<int32_t> recorded(int32_t rows, int32_t experts) {
  Rng rng(3);
  std::vector<int32_t> counts;
  for (int32_t r = 0; r < rows; ++r) {
    std::vector<int32_t> row(experts);
    for (int32_t& count : row) count = 900 + static_cast<int32_t>(rng.below(200));
    row[r % experts] += r * 300;
    counts.insert(counts.end(), row.begin(), row.end());
  }
  return counts;
}

TEST(RouteFamily, HeaderExample) {
  const RouteRequest request = request_of(RouteFamily::kHot15, 8, 2, 4, 16);
  EXPECT_EQ(route_totals(request), (std::vector<int32_t>{32, 16, 13, 13, 13, 14, 13, 14}));
  const RouteSet set = make_routes(request);
  EXPECT_NEAR(set.figures.kappa, 1.146, 0.001);
  EXPECT_DOUBLE_EQ(set.figures.imbalance, 1.5);
  EXPECT_EQ(set.figures.active_experts, 8);
}

TEST(RouteFamily, NamesGoBothWays) {
  std::set<std::string_view> names;
  for (int32_t i = 0; i < kNumRouteFamilies; ++i) {
    const auto family = static_cast<RouteFamily>(i);
    EXPECT_EQ(route_family_from_name(route_family_name(family)), family);
    names.insert(route_family_name(family));
  }
  EXPECT_EQ(static_cast<int32_t>(names.size()), kNumRouteFamilies);
  expect_bad_input([] { route_family_from_name("zipf"); }, {"'zipf'", "balanced", "real-extreme"});
}

struct Extent {
  int32_t experts, topk, ranks, tokens;
};

// The benchmark's shapes, and shapes where nothing divides.
const Extent kExtents[] = {{64, 6, 8, 1024}, {128, 8, 8, 512}, {256, 8, 8, 256}, {256, 8, 64, 64},
                           {60, 4, 7, 333},  {10, 1, 4, 700},  {96, 2, 5, 101},  {64, 8, 2, 500}};

TEST(RouteFamily, EveryFamilyKeepsItsClaimOnManyShapes) {
  int made = 0;
  for (const Extent& x : kExtents) {
    const auto counts = recorded(20, x.experts);
    for (int32_t i = 0; i < kNumRouteFamilies; ++i) {
      RouteRequest request =
          request_of(static_cast<RouteFamily>(i), x.experts, x.topk, x.ranks, x.tokens);
      request.recorded_counts = counts;
      const std::string name(route_family_name(request.family));
      if (request.family == RouteFamily::kZipfK6 && x.experts < 12 * x.topk) continue;
      if (request.family == RouteFamily::kOneHot && (x.experts + x.ranks - 1) / x.ranks < x.topk) {
        EXPECT_THROW(make_routes(request), Error) << name;
        continue;
      }
      SCOPED_TRACE(name + " E" + std::to_string(x.experts) + " P" + std::to_string(x.ranks));
      const RouteSet set = make_routes(request);  // checks the claim
      check_claim(request, set.routing);
      ++made;
      const RouteSet again = make_routes(request);
      for (int32_t p = 0; p < x.ranks; ++p) {
        ASSERT_EQ(set.routing[p].topk_ids, again.routing[p].topk_ids);
        ASSERT_EQ(set.routing[p].topk_weights, again.routing[p].topk_weights);
      }
    }
  }
  EXPECT_GE(made, 60);
}

TEST(RouteFamily, Figures) {
  const auto figures = [](RouteFamily family) {
    return make_routes(request_of(family, 128, 8, 8, 1024)).figures;
  };
  const RouteFigures balanced = figures(RouteFamily::kBalanced);
  EXPECT_DOUBLE_EQ(balanced.kappa, 1.0);
  EXPECT_DOUBLE_EQ(balanced.imbalance, 1.0);
  EXPECT_EQ(balanced.active_experts, 128);
  EXPECT_NEAR(figures(RouteFamily::kNear).imbalance, 1.03, 1e-4);
  EXPECT_DOUBLE_EQ(figures(RouteFamily::kHot15).imbalance, 1.5);
  EXPECT_NEAR(figures(RouteFamily::kZipfK3).kappa, 3.0, 0.06);
  EXPECT_NEAR(figures(RouteFamily::kZipfK6).kappa, 6.0, 0.12);
  const RouteFigures one_hot = figures(RouteFamily::kOneHot);
  EXPECT_DOUBLE_EQ(one_hot.kappa, 16.0);
  EXPECT_DOUBLE_EQ(one_hot.imbalance, 8.0);
  EXPECT_EQ(one_hot.active_experts, 8);
}

TEST(RouteFamily, BalancedSourcesAreBalancedToo) {
  const RouteSet set = make_routes(request_of(RouteFamily::kBalanced, 64, 8, 8, 24));
  std::vector<int32_t> rows(64);
  for (const Routing& routing : set.routing) {
    count_rows(routing.view(), rows);
    for (const int32_t count : rows) EXPECT_EQ(count, 3);
  }
}

TEST(RouteFamily, RouteTotalsAreWhatTheTokensGet) {
  for (const RouteFamily family :
       {RouteFamily::kBalanced, RouteFamily::kNear, RouteFamily::kZipfK3}) {
    const RouteRequest request = request_of(family, 60, 4, 7, 333);
    const RouteSet set = make_routes(request);
    std::vector<int32_t> totals(60, 0);
    std::vector<int32_t> rows(60);
    for (const Routing& routing : set.routing) {
      count_rows(routing.view(), rows);
      for (int32_t e = 0; e < 60; ++e) totals[e] += rows[e];
    }
    EXPECT_EQ(totals, route_totals(request));
  }
}

// 64 ranks of 16 rows, each of which starts its cycle over the experts at expert 0.
TEST(RouteFamily, IC_42_RestartedCycleIsNotBalanced) {
  constexpr int32_t kRanks = 64, kTokens = 2, kTopk = 8, kExperts = 256;
  const RouteRequest request = request_of(RouteFamily::kBalanced, kExperts, kTopk, kRanks, kTokens);
  std::vector<Routing> restarted;
  for (int32_t p = 0; p < kRanks; ++p) {
    Routing routing{.num_tokens = kTokens,
                    .topk = kTopk,
                    .topk_ids = {},
                    .topk_weights = std::vector<float>(kTokens * kTopk, 0.125f)};
    for (int32_t i = 0; i < kTokens * kTopk; ++i) routing.topk_ids.push_back(i % kExperts);
    restarted.push_back(routing);
  }
  const RouteFigures figures = measure_routes(restarted, kExperts);
  EXPECT_EQ(figures.active_experts, 16);
  EXPECT_DOUBLE_EQ(figures.imbalance, 16.0);
  EXPECT_DOUBLE_EQ(figures.kappa, 16.0);
  expect_bad_input([&] { check_claim(request, restarted); },
                   {"balanced", "0 to 64 rows", "kappa 16", "max/mean 16", "16 of 256 experts"});
  check_claim(request, make_routes(request).routing);
}

TEST(RouteFamily, ClaimsCatchOtherRouting) {
  const auto counts = recorded(20, 64);
  const auto routing_for = [&](RouteFamily family) {
    RouteRequest request = request_of(family, 64, 4, 8, 256);
    request.recorded_counts = counts;
    return make_routes(request).routing;
  };
  for (int32_t i = 0; i < kNumRouteFamilies; ++i) {
    const auto family = static_cast<RouteFamily>(i);
    RouteRequest request = request_of(family, 64, 4, 8, 256);
    request.recorded_counts = counts;
    const auto other = family == RouteFamily::kOneHot ? RouteFamily::kZipfK6 : RouteFamily::kOneHot;
    expect_bad_input([&] { check_claim(request, routing_for(other)); },
                     {std::string(route_family_name(family)), "claim"});
  }
}

TEST(RouteFamily, ClaimsCatchBrokenTokens) {
  const RouteRequest request = request_of(RouteFamily::kBalanced, 16, 2, 2, 32);
  const auto good = make_routes(request).routing;
  auto twice = good;
  twice[1].topk_ids[9] = twice[1].topk_ids[8];
  expect_bad_input([&] { check_claim(request, twice); }, {"rank 1, token 4", "twice"});
  auto unrouted = good;
  unrouted[0].topk_ids[0] = -1;
  expect_bad_input([&] { check_claim(request, unrouted); }, {"rank 0, token 0", "-1"});
  auto fewer = good;
  fewer.pop_back();
  expect_bad_input([&] { check_claim(request, fewer); }, {"1 ranks", "2 asked for"});
  auto shorter = good;
  shorter[1].num_tokens = 31;
  expect_bad_input([&] { check_claim(request, shorter); }, {"rank 1", "31 tokens"});
}

TEST(RouteFamily, PercentilesOfRecordedCounts) {
  const auto counts = recorded(20, 16);
  RouteRequest request = request_of(RouteFamily::kRealMedian, 16, 2, 16, 512);
  request.recorded_counts = counts;
  // One expert a rank: imbalance rises with the row number once the hot expert stands out.
  EXPECT_EQ(pick_recorded_row(request), 9);
  request.family = RouteFamily::kRealHigh;
  EXPECT_EQ(pick_recorded_row(request), 17);
  request.family = RouteFamily::kRealExtreme;
  EXPECT_EQ(pick_recorded_row(request), 19);
  // Rows without counts are not part of the percentile.
  std::vector<int32_t> padded(16 * 5, 0);
  padded.insert(padded.end(), counts.begin(), counts.end());
  request.recorded_counts = padded;
  EXPECT_EQ(pick_recorded_row(request), 24);
}

TEST(RouteFamily, HotExpertsAreCappedAtAllTokens) {
  // 150 rows as 100 : 50 and 300 rows as 164 : 82 : 54 stay below the cap of 200.
  EXPECT_EQ(route_totals(request_of(RouteFamily::kHot15, 4, 1, 2, 100)),
            (std::vector<int32_t>{100, 50, 25, 25}));
  EXPECT_EQ(route_totals(request_of(RouteFamily::kHot15, 6, 2, 2, 100)),
            (std::vector<int32_t>{164, 82, 54, 33, 33, 34}));
  // 450 rows as 216 : 108 : 72 : 54: expert 0 is held at 200, and 16 rows go on to expert 1.
  EXPECT_EQ(route_totals(request_of(RouteFamily::kHot15, 8, 3, 2, 100)),
            (std::vector<int32_t>{200, 124, 72, 54, 37, 38, 37, 38}));
}

TEST(RouteFamily, BadInputNamesTheLimit) {
  const auto making = [](RouteRequest request) { return [request] { make_routes(request); }; };
  const auto balanced = RouteFamily::kBalanced;
  expect_bad_input(making(request_of(balanced, 0, 1, 1, 1)), {"num_experts: 0", "4096"});
  expect_bad_input(making(request_of(balanced, 8, 9, 1, 1)), {"topk: 9", "[1, 8]"});
  expect_bad_input(making(request_of(balanced, 8, 2, 1025, 1)), {"num_ranks: 1025"});
  expect_bad_input(making(request_of(balanced, 8, 2, 2, 0)), {"tokens_per_rank: 0"});
  expect_bad_input(making(request_of(balanced, 8, 8, 1024, 1 << 20)), {"rows of the step"});
  expect_bad_input(making(request_of(RouteFamily::kZipfK6, 64, 6, 8, 100)),
                   {"zipf-k6", "64 / 6", "12"});
  expect_bad_input(making(request_of(RouteFamily::kZipfK3, 16, 8, 8, 100)), {"zipf-k3", "16 / 8"});
  expect_bad_input(making(request_of(RouteFamily::kOneHot, 64, 6, 16, 100)),
                   {"one-hot", "owns 4 experts", "topk 6"});
  expect_bad_input(making(request_of(RouteFamily::kHot15, 8, 2, 1, 100)), {"hot-1.5", "2 ranks"});
  expect_bad_input(making(request_of(RouteFamily::kHot15, 4, 3, 4, 100)),
                   {"hot-1.5", "1 experts", "at most 400", "450 rows"});
  expect_bad_input(making(request_of(RouteFamily::kRealHigh, 8, 2, 2, 100)),
                   {"real-high", "0 recorded counts", "rows of 8"});
  RouteRequest empty = request_of(RouteFamily::kRealHigh, 8, 2, 2, 100);
  const std::vector<int32_t> zeros(16, 0);
  empty.recorded_counts = zeros;
  expect_bad_input(making(empty), {"real-high", "all recorded counts are 0"});
  // All that take a request check it, not make_routes alone.
  empty.num_experts = 0;
  expect_bad_input([&] { route_totals(empty); }, {"num_experts: 0"});
  expect_bad_input([&] { pick_recorded_row(empty); }, {"num_experts: 0"});
  expect_bad_input([&] { check_claim(empty, {}); }, {"num_experts: 0"});
}

}  // namespace
}  // namespace megaflux
