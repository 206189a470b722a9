#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "megaflux/moe/load_table.h"
#include "megaflux/moe/owner_table.h"
#include "moe/expect_error.h"

namespace megaflux {
namespace {

constexpr int32_t kMax = std::numeric_limits<int32_t>::max();

TEST(LoadTable, HeaderExample) {
  const LoadTable table(2, 3, std::vector<int32_t>{5, 0, 1, 4, 2, 0});
  EXPECT_EQ(std::vector<int32_t>(table.totals().begin(), table.totals().end()),
            (std::vector<int32_t>{9, 2, 1}));
  EXPECT_EQ(table.blocks(0, 4), 3);
  EXPECT_EQ(table.blocks(1, 4), 1);
  EXPECT_EQ(table.blocks(2, 4), 1);
  EXPECT_EQ(table.rows_in_blocks(0, 1, 1, 4), 4);
  EXPECT_EQ(table.rows_in_blocks(0, 2, 1, 4), 1);
  EXPECT_EQ(table.rows_in_blocks(0, 0, 3, 4), 9);
  EXPECT_EQ(table.rows(1, 1), 2);
  EXPECT_EQ(table.rows_of_source(1)[0], 4);
  EXPECT_TRUE(table.has_sources());
}

TEST(LoadTable, TotalsAreSplitEvenlyWithTheRemainderAtLowRanks) {
  const LoadTable table = LoadTable::from_totals(4, std::vector<int64_t>{10, 0, 3});
  EXPECT_FALSE(table.has_sources());
  EXPECT_EQ(table.total_rows(), 13);
  const int32_t expected[4][3] = {{3, 0, 1}, {3, 0, 1}, {2, 0, 1}, {2, 0, 0}};
  for (int32_t p = 0; p < 4; ++p) {
    for (int32_t e = 0; e < 3; ++e) EXPECT_EQ(table.rows(p, e), expected[p][e]);
  }
}

TEST(LoadTable, AssignForgetsWhatWasThere) {
  LoadTable table = LoadTable::from_totals(2, std::vector<int64_t>{7, 7, 7, 7});
  table.assign(1, 2, std::vector<int32_t>{3, 4});
  EXPECT_TRUE(table.has_sources());
  EXPECT_EQ(table.num_ranks(), 1);
  EXPECT_EQ(table.num_experts(), 2);
  EXPECT_EQ(table.total_rows(), 7);
  EXPECT_EQ(table.totals().size(), 2u);
}

TEST(LoadTable, AssignTotalsForgetsWhatWasThere) {
  LoadTable table(2, 2, std::vector<int32_t>{3, 4, 5, 6});
  table.assign_totals(3, std::vector<int32_t>{8, 1, 0});
  EXPECT_FALSE(table.has_sources());
  EXPECT_EQ(table.num_ranks(), 3);
  EXPECT_EQ(table.total_rows(), 9);
  EXPECT_EQ(table.totals().size(), 3u);
  const int32_t expected[3][3] = {{3, 1, 0}, {3, 0, 0}, {2, 0, 0}};
  for (int32_t p = 0; p < 3; ++p) {
    for (int32_t e = 0; e < 3; ++e) EXPECT_EQ(table.rows(p, e), expected[p][e]);
  }
}

TEST(LoadTable, ARefusedAssignChangesNothing) {
  LoadTable table(1, 2, std::vector<int32_t>{3, 4});
  EXPECT_THROW(table.assign(1, 3, std::vector<int32_t>{1, -1, 1}), Error);
  EXPECT_THROW(table.assign_totals(1, std::vector<int32_t>{1, -1, 1}), Error);
  EXPECT_THROW(table.assign_totals(1, std::vector<int32_t>{kMax, 1, 1}), Error);
  EXPECT_EQ(table.num_experts(), 2);
  EXPECT_EQ(table.totals()[1], 4);
}

TEST(LoadTable, LimitOfAStep) {
  const LoadTable most(2, 1, std::vector<int32_t>{kMax - 1, 1});
  EXPECT_EQ(most.total_rows(), kMax);
  EXPECT_EQ(most.blocks(0, 128), (1 << 24));
  EXPECT_EQ(most.rows_in_blocks(0, (1 << 24) - 1, 1, 128), 127);
  expect_bad_input(
      [] {
        LoadTable(2, 1, std::vector<int32_t>{kMax, 1});
      },
      {"2147483648 rows", "2147483647"});
  expect_bad_input([] { LoadTable::from_totals(2, std::vector<int64_t>{int64_t{1} << 31}); },
                   {"expert 0", "2147483648", "2147483647"});
  expect_bad_input(
      [] {
        LoadTable::from_totals(2, std::vector<int64_t>{kMax, 1});
      },
      {"2147483648 rows", "2147483647"});
}

TEST(LoadTable, BadInputNamesThePlace) {
  expect_bad_input(
      [] {
        LoadTable(2, 3, std::vector<int32_t>{0, 0, 0, 0, -7, 0});
      },
      {"rank 1", "expert 1", "-7"});
  expect_bad_input([] { LoadTable(2, 3, std::vector<int32_t>(5)); }, {"5 counts", "2 ranks", "3"});
  expect_bad_input([] { LoadTable(0, 3, {}); }, {"num_ranks: 0", "[1, 1024]"});
  expect_bad_input([] { LoadTable(1025, 1, std::vector<int32_t>(1025)); }, {"num_ranks: 1025"});
  expect_bad_input([] { LoadTable(1, 4097, std::vector<int32_t>(4097)); }, {"num_experts: 4097"});
  expect_bad_input([] { LoadTable(1, -1, {}); }, {"num_experts", "[1, 4096]"});
  expect_bad_input([] { LoadTable::from_totals(4, {}); }, {"num_experts: 0"});
  expect_bad_input(
      [] {
        LoadTable::from_totals(4, std::vector<int64_t>{1, -2});
      },
      {"expert 1", "-2"});
}

// IC-20 and IC-22: any number of experts over any number of ranks.
TEST(LoadTable, IC_20_IC_22_AnyExtents) {
  for (const int32_t experts : {1, 3, 7, 10, 64, 96, 160, 256, 384, 512, 896, 1024, 1025, 2048}) {
    for (const int32_t ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 72}) {
      std::vector<int64_t> totals(experts);
      for (int32_t e = 0; e < experts; ++e) totals[e] = (e * 37) % 101;
      const LoadTable table = LoadTable::from_totals(ranks, totals);
      ASSERT_EQ(table.total_rows(), std::accumulate(totals.begin(), totals.end(), int64_t{0}));
      const auto owner_of = contiguous_owners(experts, ranks);
      ASSERT_GE(owner_imbalance(table, owner_of), 1.0 - 1e-12);
      ASSERT_GE(kappa(table), 1.0 - 1e-12);
    }
  }
}

TEST(LoadTable, ImbalanceAndKappa) {
  const LoadTable table = LoadTable::from_totals(2, std::vector<int64_t>{6, 2, 3, 1});
  EXPECT_DOUBLE_EQ(owner_imbalance(table, std::vector<int32_t>{0, 0, 1, 1}), 8.0 / 6.0);
  EXPECT_DOUBLE_EQ(kappa(table), 4.0 * (36 + 4 + 9 + 1) / 144);
  const LoadTable none = LoadTable::from_totals(2, std::vector<int64_t>{0, 0});
  EXPECT_DOUBLE_EQ(owner_imbalance(none, std::vector<int32_t>{0, 1}), 1.0);
  EXPECT_DOUBLE_EQ(kappa(none), 1.0);
  const LoadTable one_hot = LoadTable::from_totals(2, std::vector<int64_t>{0, 9, 0, 0});
  EXPECT_DOUBLE_EQ(kappa(one_hot), 4.0);
  expect_bad_input(
      [&] {
        owner_imbalance(table, std::vector<int32_t>{0, 0, 1});
      },
      {"owner_of: 3 entries", "4 experts"});
  expect_bad_input(
      [&] {
        owner_imbalance(table, std::vector<int32_t>{0, 0, 1, 2});
      },
      {"expert 3", "rank 2", "[0, 2)"});
}

TEST(LoadTable, FromRouting) {
  // An id twice counts twice, -1 is nobody's, and tokens beyond the valid ones play no part.
  const Routing first = {.num_tokens = 2, .topk = 2, .topk_ids = {2, 2, -1, 0}, .topk_weights = {}};
  const Routing second = {.num_tokens = 1, .topk = 2, .topk_ids = {1, 2}, .topk_weights = {}};
  const std::vector<Routing> routing = {first, second};
  const LoadTable table = LoadTable::from_routing(routing, 3);
  EXPECT_TRUE(table.has_sources());
  EXPECT_TRUE(std::ranges::equal(table.rows(), std::vector<int32_t>{1, 0, 2, 0, 1, 1}));
  const int32_t num_valid = 1;
  std::vector<RoutingView> views = {first.view(), second.view()};
  views[0].num_valid_tokens = &num_valid;
  EXPECT_TRUE(std::ranges::equal(LoadTable::from_routing(views, 3).rows(),
                                 std::vector<int32_t>{0, 0, 2, 0, 1, 1}));
  expect_bad_input([] { LoadTable::from_routing(std::vector<Routing>{}, 3); },
                   {"num_ranks: 0 is outside [1,"});
}

RC_GTEST_PROP(LoadTable, BlocksCoverTheRowsExactly, ()) {
  const auto rows = *rc::gen::inRange(0, 100000);
  const auto block_rows = *rc::gen::inRange(1, 1000);
  const LoadTable table(1, 1, std::vector<int32_t>{rows});
  const int32_t blocks = table.blocks(0, block_rows);
  int64_t sum = 0;
  for (int32_t b = 0; b < blocks; ++b) {
    const int64_t in_block = table.rows_in_blocks(0, b, 1, block_rows);
    RC_ASSERT(in_block >= 1 && in_block <= block_rows);
    sum += in_block;
  }
  RC_ASSERT(sum == rows);
  RC_ASSERT(table.rows_in_blocks(0, blocks, 5, block_rows) == 0);
}

}  // namespace
}  // namespace megaflux
