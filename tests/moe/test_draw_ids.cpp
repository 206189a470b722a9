#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "megaflux/base/rng.h"
#include "megaflux/moe/draw_ids.h"
#include "megaflux/moe/scale_counts.h"
#include "moe/expect_error.h"

namespace megaflux {
namespace {

// Counts in [0, tokens] that add up to tokens x topk, anything from even to extreme.
std::vector<int32_t> random_counts(Rng& rng, int32_t experts, int32_t tokens, int32_t topk) {
  std::vector<int32_t> weights(experts);
  const uint32_t spread = 1 + rng.below(20);
  for (int32_t& weight : weights) weight = static_cast<int32_t>(1u << rng.below(spread));
  return scale_counts(weights, int64_t{tokens} * topk, tokens);
}

RC_GTEST_PROP(DrawIds, AddsUpToTheCountsWithDistinctExperts, (uint64_t seed)) {
  Rng rng(seed);
  const auto topk = static_cast<int32_t>(1 + rng.below(16));
  const auto experts = topk + static_cast<int32_t>(rng.below(60));
  const auto tokens = static_cast<int32_t>(rng.below(100));
  const auto counts = random_counts(rng, experts, tokens, topk);
  const auto ids = draw_ids(counts, tokens, topk, seed);
  RC_ASSERT(ids.size() == static_cast<size_t>(tokens * topk));
  std::vector<int32_t> drawn(experts, 0);
  for (int32_t t = 0; t < tokens; ++t) {
    const auto row = ids.begin() + t * topk;
    RC_ASSERT(std::set<int32_t>(row, row + topk).size() == static_cast<size_t>(topk));
    std::for_each(row, row + topk, [&](int32_t e) { ++drawn.at(e); });
  }
  RC_ASSERT(drawn == counts);
  RC_ASSERT(draw_ids(counts, tokens, topk, seed) == ids);
}

// The tightest cases: no freedom, or an expert in every token.
TEST(DrawIds, CannotDeadEnd) {
  EXPECT_EQ(draw_ids(std::vector<int32_t>{5, 5, 0}, 5, 2, 1).size(), 10u);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<int32_t> counts = {4, 3, 3, 2};
    const auto ids = draw_ids(counts, 4, 3, seed);
    for (int t = 0; t < 4; ++t) {
      EXPECT_NE(std::find(&ids[t * 3], &ids[t * 3] + 3, 0), &ids[t * 3] + 3);
    }
  }
  EXPECT_TRUE(draw_ids(std::vector<int32_t>{0, 0}, 0, 2, 1).empty());
  EXPECT_EQ(draw_ids(std::vector<int32_t>{3}, 3, 1, 1), (std::vector<int32_t>{0, 0, 0}));
}

// Tokens stand in no order: each eighth of them sees about an eighth of every expert's rows, and
// pairs of experts meet about as often as independent ones would.
TEST(DrawIds, NoTraceOfTheGridIsLeft) {
  constexpr int32_t kExperts = 16, kTokens = 8000, kTopk = 4, kParts = 8;
  const std::vector<int32_t> counts(kExperts, kTokens * kTopk / kExperts);
  const auto ids = draw_ids(counts, kTokens, kTopk, 7);
  std::vector<int> by_part(kParts * kExperts, 0);
  std::vector<int> by_slot(kTopk * kExperts, 0);
  std::vector<int> together(kExperts * kExperts, 0);
  for (int32_t i = 0; i < kTokens * kTopk; ++i) {
    const int32_t token = i / kTopk;
    ++by_part[token * kParts / kTokens * kExperts + ids[i]];
    ++by_slot[i % kTopk * kExperts + ids[i]];
    for (int32_t k = 0; k < kTopk; ++k) ++together[ids[i] * kExperts + ids[token * kTopk + k]];
  }
  // 250, 500 and 400 expected; the bounds are six standard deviations.
  for (const int count : by_part) EXPECT_NEAR(count, 250, 85);
  for (const int count : by_slot) EXPECT_NEAR(count, 500, 120);
  for (int32_t a = 0; a < kExperts; ++a) {
    for (int32_t b = 0; b < kExperts; ++b) {
      if (a == b) continue;
      EXPECT_NEAR(together[a * kExperts + b], 400, 120) << a << " with " << b;
    }
  }
}

TEST(DrawIds, SeedsDiffer) {
  const std::vector<int32_t> counts(8, 50);
  EXPECT_NE(draw_ids(counts, 100, 4, 1), draw_ids(counts, 100, 4, 2));
}

TEST(DrawIds, BadInputNamesTheLimit) {
  expect_bad_input(
      [] {
        draw_ids(std::vector<int32_t>{5, 3}, 4, 2, 1);
      },
      {"expert 0", "5", "[0, 4 tokens]"});
  expect_bad_input([] { draw_ids(std::vector<int32_t>{4, -1, 4}, 4, 2, 1); }, {"expert 1", "-1"});
  expect_bad_input([] { draw_ids(std::vector<int32_t>{4, 3}, 4, 2, 1); }, {"7 rows", "8 expected"});
  expect_bad_input([] { draw_ids(std::vector<int32_t>{4}, 4, 0, 1); }, {"topk: 0"});
  expect_bad_input([] { draw_ids(std::vector<int32_t>{4}, -1, 1, 1); }, {"num_tokens: -1"});
  expect_bad_input([] { draw_ids(std::vector<int32_t>{4}, 1 << 30, 2, 1); },
                   {"2147483648 rows", "2^31"});
}

TEST(DrawWeights, PositiveAndNormalisedOverTheRoutedSlots) {
  const std::vector<int32_t> ids = {3, 1, 2, -1, 0, -1, -1, -1, -1};
  const auto weights = draw_weights(ids, 3, 5);
  ASSERT_EQ(weights.size(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(weights[i] > 0, ids[i] >= 0) << i;
  EXPECT_NEAR(weights[0] + weights[1] + weights[2], 1.0f, 1e-6);
  EXPECT_FLOAT_EQ(weights[4], 1.0f);
  EXPECT_EQ(draw_weights(ids, 3, 5), weights);
  EXPECT_NE(draw_weights(ids, 3, 6), weights);
  expect_bad_input([&] { draw_weights(ids, 2, 5); }, {"topk: 2", "9 ids"});
}

TEST(ScaleCounts, HeaderExample) {
  EXPECT_EQ(scale_counts(std::vector<int32_t>{6, 3, 1}, 20, 10), (std::vector<int32_t>{10, 8, 2}));
}

RC_GTEST_PROP(ScaleCounts, SumLimitAndProportion, ()) {
  const auto counts =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<int32_t>>(rc::gen::inRange(0, 100000)));
  const auto limit = *rc::gen::inRange<int64_t>(1, 1 << 20);
  const auto active = std::count_if(counts.begin(), counts.end(), [](int32_t c) { return c > 0; });
  RC_PRE(active > 0);
  const auto total =
      *rc::gen::inRange<int64_t>(0, std::min<int64_t>(active * limit, (int64_t{1} << 31) - 1) + 1);
  const auto scaled = scale_counts(counts, total, limit);
  RC_ASSERT(std::accumulate(scaled.begin(), scaled.end(), int64_t{0}) == total);
  for (size_t a = 0; a < counts.size(); ++a) {
    RC_ASSERT(scaled[a] >= 0 && scaled[a] <= limit);
    RC_ASSERT(counts[a] > 0 || scaled[a] == 0);
    for (size_t b = 0; b < counts.size(); ++b)
      RC_ASSERT(counts[a] <= counts[b] || scaled[a] >= scaled[b]);
  }
  // Every expert below the limit is within a row of its share among those.
  int64_t open_counts = 0;
  int64_t open_rows = 0;
  for (size_t e = 0; e < counts.size(); ++e) {
    if (scaled[e] >= limit) continue;
    open_counts += counts[e];
    open_rows += scaled[e];
  }
  for (size_t e = 0; e < counts.size(); ++e) {
    if (scaled[e] >= limit || open_counts == 0) continue;
    const double share =
        static_cast<double>(open_rows) * counts[e] / static_cast<double>(open_counts);
    RC_ASSERT(std::abs(scaled[e] - share) < 2.0);
  }
}

TEST(ScaleCounts, CountsThatFitStayAsTheyAre) {
  const std::vector<int32_t> counts = {7, 0, 3, 2};
  EXPECT_EQ(scale_counts(counts, 12, 7), counts);
  EXPECT_EQ(scale_counts(counts, 0, 7), (std::vector<int32_t>{0, 0, 0, 0}));
}

TEST(ScaleCounts, BadInputNamesTheLimit) {
  const std::vector<int32_t> counts = {7, 0, 3};
  expect_bad_input([&] { scale_counts(counts, 21, 10); },
                   {"21 rows", "2 experts with rows", "at most 10"});
  expect_bad_input([&] { scale_counts(counts, -1, 10); }, {"-1", "2^31"});
  expect_bad_input([&] { scale_counts(counts, int64_t{1} << 31, 1 << 30); }, {"2147483648"});
  expect_bad_input([] { scale_counts(std::vector<int32_t>{3, -2}, 1, 1); }, {"expert 1", "-2"});
}

}  // namespace
}  // namespace megaflux
