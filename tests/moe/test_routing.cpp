#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "megaflux/base/rng.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/routing.h"
#include "moe/expect_error.h"

namespace megaflux {
namespace {

Routing routing_of(int32_t topk, std::vector<int32_t> ids) {
  const auto tokens = static_cast<int32_t>(ids.size() / topk);
  std::vector<float> weights(ids.size(), 0.5f);
  return {.num_tokens = tokens, .topk = topk, .topk_ids = std::move(ids), .topk_weights = weights};
}

// Counts into a poisoned buffer.
std::vector<int32_t> rows_of(const RoutingView& view, int32_t num_experts) {
  std::vector<int32_t> rows(num_experts, -12345);
  count_rows(view, rows);
  return rows;
}

TEST(Routing, HeaderExample) {
  const Routing routing = routing_of(2, {2, 0, 3, -1, 1, 1});
  check_routing(routing.view(), 0, 4);
  EXPECT_EQ(rows_of(routing.view(), 4), (std::vector<int32_t>{1, 2, 1, 1}));
}

TEST(Routing, NoTokensNeedNoPointers) {
  const RoutingView view{.num_tokens = 0, .topk = 8};
  check_routing(view, 0, 16);
  EXPECT_EQ(rows_of(view, 16), std::vector<int32_t>(16, 0));
}

TEST(Routing, IC_06_IdsOutsideTheExperts) {
  std::vector<int32_t> ids(8 * 9, 3);
  ids[5 * 9 + 8] = 256;
  const Routing routing = routing_of(9, ids);
  expect_bad_input([&] { check_routing(routing.view(), 2, 256); },
                   {"rank 2", "topk_ids[5][8]", "256", "[-1, 256)"});
  check_routing(routing.view(), 2, 257);
  const Routing below = routing_of(2, {0, -2});
  expect_bad_input([&] { check_routing(below.view(), 0, 4); }, {"topk_ids[0][1]", "-2", "[-1, 4)"});
}

TEST(Routing, IC_06_WideIdsAreNotCutToTheirLowBits) {
  const std::vector<int64_t> ids = {1, int64_t{1} << 32};
  const float weights[] = {0.5f, 0.5f};
  const RoutingView view{.num_tokens = 1,
                         .topk = 2,
                         .id_type = IdType::kInt64,
                         .topk_ids = ids.data(),
                         .topk_weights = weights};
  expect_bad_input([&] { check_routing(view, 0, 8); }, {"topk_ids[0][1]", "4294967296"});
}

TEST(Routing, IC_11_AnIdTwiceCountsTwice) {
  const Routing routing = routing_of(4, {3, 3, 7, 1});
  check_routing(routing.view(), 0, 8);
  const auto rows = rows_of(routing.view(), 8);
  EXPECT_EQ(rows[3], 2);
  EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), 0), 4);
}

TEST(Routing, IC_12_PadsAreNoRows) {
  constexpr int32_t kRanks = 8, kTokens = 512, kTopk = 8, kExperts = 64;
  Rng rng(12);
  std::vector<int32_t> loads;
  for (int32_t p = 0; p < kRanks; ++p) {
    std::vector<int32_t> ids(kTokens * kTopk, -1);
    if (p == 0) {
      for (int32_t& id : ids) id = static_cast<int32_t>(rng.below(kExperts));
    }
    const Routing routing = routing_of(kTopk, ids);
    check_routing(routing.view(), p, kExperts);
    const auto rows = rows_of(routing.view(), kExperts);
    loads.insert(loads.end(), rows.begin(), rows.end());
  }
  const LoadTable table(kRanks, kExperts, loads);
  EXPECT_EQ(table.total_rows(), kTokens * kTopk);
  for (int32_t p = 1; p < kRanks; ++p) {
    for (const int32_t rows : table.rows_of_source(p)) EXPECT_EQ(rows, 0);
  }
}

TEST(Routing, IC_13_TokensBeyondTheValidCountAreNotLookedAt) {
  constexpr int32_t kExperts = 32, kTopk = 4;
  Rng rng(13);
  std::vector<int32_t> ids(1024 * kTopk);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = i < 300 * kTopk ? static_cast<int32_t>(rng.below(kExperts)) : -559038737;
  }
  const Routing buffer = routing_of(kTopk, ids);
  const Routing alone = routing_of(kTopk, {ids.begin(), ids.begin() + 300 * kTopk});
  int32_t valid = 300;
  RoutingView view = buffer.view();
  view.num_valid_tokens = &valid;
  check_routing(view, 0, kExperts);
  EXPECT_EQ(rows_of(view, kExperts), rows_of(alone.view(), kExperts));
  // The count is read at each call, as a graph replay needs.
  valid = 0;
  EXPECT_EQ(rows_of(view, kExperts), std::vector<int32_t>(kExperts, 0));
  valid = 301;
  expect_bad_input([&] { check_routing(view, 0, kExperts); }, {"topk_ids[300][0]", "-559038737"});
  valid = -5;
  EXPECT_EQ(view.valid_tokens(), 0);
  valid = 5000;
  EXPECT_EQ(view.valid_tokens(), 1024);
}

RC_GTEST_PROP(Routing, IC_61_IdTypesGiveTheSameCounts, ()) {
  const auto experts = *rc::gen::inRange(1, 4096);
  const auto topk = *rc::gen::inRange(1, 65);
  const auto tokens = *rc::gen::inRange(0, 20);
  const auto ids = *rc::gen::container<std::vector<int32_t>>(static_cast<size_t>(tokens * topk),
                                                             rc::gen::inRange(-1, experts));
  const Routing routing = routing_of(topk, ids);
  const std::vector<int16_t> narrow(ids.begin(), ids.end());
  const std::vector<int64_t> wide(ids.begin(), ids.end());
  RoutingView view = routing.view();
  check_routing(view, 0, experts);
  const auto expected = rows_of(view, experts);
  view.id_type = IdType::kInt16;
  view.topk_ids = narrow.data();
  check_routing(view, 0, experts);
  RC_ASSERT(rows_of(view, experts) == expected);
  view.id_type = IdType::kInt64;
  view.topk_ids = wide.data();
  check_routing(view, 0, experts);
  RC_ASSERT(rows_of(view, experts) == expected);
}

TEST(Routing, BadInputNamesWhatIsMissing) {
  const Routing good = routing_of(2, {0, 1});
  RoutingView view = good.view();
  view.topk_ids = nullptr;
  expect_bad_input([&] { check_routing(view, 1, 4); }, {"rank 1", "topk_ids is null", "1 tokens"});
  view = good.view();
  view.topk_weights = nullptr;
  expect_bad_input([&] { check_routing(view, 1, 4); }, {"rank 1", "topk_weights is null"});
  view = good.view();
  view.num_tokens = -1;
  expect_bad_input([&] { check_routing(view, 1, 4); }, {"num_tokens: -1"});
  view = good.view();
  view.topk = 65;
  expect_bad_input([&] { check_routing(view, 1, 4); }, {"topk: 65", "64"});
}

}  // namespace
}  // namespace megaflux
