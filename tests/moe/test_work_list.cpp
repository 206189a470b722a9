#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "megaflux/base/math.h"
#include "megaflux/base/rng.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/moe/work_list.h"
#include "moe/expect_error.h"

namespace megaflux {
namespace {

std::vector<int32_t> blocks_of(const LoadTable& loads, int32_t block_rows) {
  std::vector<int32_t> blocks;
  for (int32_t e = 0; e < loads.num_experts(); ++e) blocks.push_back(loads.blocks(e, block_rows));
  return blocks;
}

Plan plan_of(const LoadTable& loads, const PlanDims& dims, std::span<const int32_t> owner_of,
             std::span<const DraftReplica> replicas) {
  const auto blocks = blocks_of(loads, dims.block_rows);
  Plan plan;
  plan.assign(
      {.dims = dims, .owner_of = owner_of, .blocks = blocks, .replicas = replicas, .resident = {}});
  return plan;
}

struct HeaderCase {
  LoadTable loads{2, 3, std::vector<int32_t>{300, 60, 90, 300, 40, 0}};
  PlanDims dims{.num_experts = 3, .num_ranks = 2, .replica_slots = 1, .block_rows = 128};
  std::vector<int32_t> owner_of{0, 0, 1};
  std::vector<DraftReplica> replicas{{.expert = 0, .rank = 1, .num_blocks = 2}};
  Plan plan = plan_of(loads, dims, owner_of, replicas);
};

TEST(WorkList, HeaderExample) {
  const HeaderCase c;
  WorkList list;
  list.assign(c.plan, c.loads, 1, PartOrder::kOwnedFirst);
  ASSERT_EQ(list.parts().size(), 2u);
  const Part& owned = list.parts()[0];
  EXPECT_EQ(owned.expert, 2);
  EXPECT_EQ(owned.weight_slot, 0);
  EXPECT_FALSE(owned.is_replica);
  EXPECT_EQ(owned.first_row, 0);
  EXPECT_EQ(owned.num_rows, 90);
  EXPECT_EQ(owned.first_tile, 0);
  EXPECT_EQ(owned.num_tiles, 1);
  const Part& replica = list.parts()[1];
  EXPECT_EQ(replica.expert, 0);
  EXPECT_EQ(replica.weight_slot, 1);
  EXPECT_TRUE(replica.is_replica);
  EXPECT_EQ(replica.first_block, 3);
  EXPECT_EQ(replica.num_blocks, 2);
  EXPECT_EQ(replica.first_row, 384);
  EXPECT_EQ(replica.num_rows, 216);
  EXPECT_EQ(replica.first_tile, 1);
  EXPECT_EQ(replica.num_tiles, 2);
  EXPECT_EQ(list.num_tiles(), 3);
  EXPECT_EQ(list.num_rows(), 306);

  std::vector<Tile> tiles(list.begin(), list.end());
  ASSERT_EQ(tiles.size(), 3u);
  EXPECT_EQ(tiles[2].part_idx, 1);
  EXPECT_EQ(tiles[2].index, 2);
  EXPECT_EQ(tiles[2].first_row, 512);
  EXPECT_EQ(tiles[2].num_rows, 88);
}

TEST(WorkList, ReplicatedExpertsComeFirstInBackward) {
  const HeaderCase c;
  WorkList list;
  list.assign(c.plan, c.loads, 1, PartOrder::kReplicatedFirst);
  ASSERT_EQ(list.parts().size(), 2u);
  EXPECT_EQ(list.parts()[0].expert, 0);
  EXPECT_EQ(list.parts()[1].expert, 2);
  list.assign(c.plan, c.loads, 0, PartOrder::kReplicatedFirst);
  ASSERT_EQ(list.parts().size(), 2u);
  EXPECT_EQ(list.parts()[0].expert, 0) << "the owner's part of a replicated expert is early too";
}

TEST(WorkList, RankWithoutRowsHasAnEmptyList) {
  const LoadTable loads = LoadTable::from_totals(4, std::vector<int64_t>{5, 0, 0});
  const PlanDims dims{.num_experts = 3, .num_ranks = 4, .replica_slots = 0, .block_rows = 128};
  const auto owner_of = contiguous_owners(3, 4);
  const Plan plan = plan_of(loads, dims, owner_of, {});
  WorkList list;
  for (const int32_t rank : {1, 3}) {
    list.assign(plan, loads, rank, PartOrder::kOwnedFirst);
    EXPECT_TRUE(list.parts().empty());
    EXPECT_EQ(list.num_tiles(), 0);
    EXPECT_TRUE(list.begin() == list.end());
  }
}

TEST(WorkList, BadInputNamesTheLimit) {
  const HeaderCase c;
  WorkList list;
  expect_bad_input([&] { list.assign(c.plan, c.loads, 2, PartOrder::kOwnedFirst); },
                   {"rank: 2", "[0, 2)"});
  expect_bad_input([&] { list.assign(c.plan, c.loads, -1, PartOrder::kOwnedFirst); }, {"rank: -1"});
  const LoadTable other = LoadTable::from_totals(3, std::vector<int64_t>{1, 2, 3});
  expect_bad_input([&] { list.assign(c.plan, other, 0, PartOrder::kOwnedFirst); }, {"P 3", "P 2"});
  // What a planner leaves behind where there is no legal plan.
  expect_bad_input([&] { list.assign(Plan(), c.loads, 0, PartOrder::kOwnedFirst); },
                   {"plan: is empty"});
}

// A legal plan with random replicas of random size.
struct RandomCase {
  LoadTable loads;
  PlanDims dims;
  Plan plan;
};

RandomCase random_case(Rng& rng) {
  const auto pick = [&](uint32_t low, uint32_t high) {
    return static_cast<int32_t>(low + rng.below(high - low + 1));
  };
  RandomCase c;
  constexpr int32_t kBlockRows[] = {1, 7, 64, 128, 130, 300};
  c.dims = {.num_experts = pick(1, 12),
            .num_ranks = pick(1, 6),
            .replica_slots = pick(0, 3),
            .block_rows = kBlockRows[rng.below(6)]};
  std::vector<int32_t> rows(static_cast<size_t>(c.dims.num_ranks) * c.dims.num_experts);
  for (int32_t& count : rows) count = rng.below(3) == 0 ? 0 : pick(0, 400);
  c.loads = LoadTable(c.dims.num_ranks, c.dims.num_experts, rows);
  std::vector<int32_t> owner_of(c.dims.num_experts);
  for (int32_t& owner : owner_of) owner = pick(0, c.dims.num_ranks - 1);
  auto left = blocks_of(c.loads, c.dims.block_rows);
  std::vector<DraftReplica> replicas;
  for (int32_t rank = 0; rank < c.dims.num_ranks; ++rank) {
    std::vector<bool> held(c.dims.num_experts, false);
    for (int32_t slot = 0; slot < c.dims.replica_slots; ++slot) {
      const int32_t e = pick(0, c.dims.num_experts - 1);
      if (owner_of[e] == rank || held[e] || left[e] == 0) continue;
      const int32_t blocks = pick(1, left[e]);
      replicas.push_back({.expert = e, .rank = rank, .num_blocks = blocks});
      left[e] -= blocks;
      held[e] = true;
    }
  }
  c.plan = plan_of(c.loads, c.dims, owner_of, replicas);
  return c;
}

// Marks the rows of a rank's tiles in `computed` [E][c_e] and checks the list against itself.
void mark_rows(const WorkList& list, std::vector<std::vector<int>>& computed) {
  int32_t next_tile = 0;
  int64_t rows = 0;
  for (const Tile& tile : list) {
    const Part& part = list.parts()[tile.part_idx];
    RC_ASSERT(tile.index == next_tile++);
    RC_ASSERT(tile.num_rows >= 1 && tile.num_rows <= kTileRows);
    RC_ASSERT(tile.first_row == part.first_row + (tile.index - part.first_tile) * kTileRows);
    RC_ASSERT(tile.first_row + tile.num_rows <= part.first_row + part.num_rows);
    for (int32_t r = 0; r < tile.num_rows; ++r) ++computed[part.expert].at(tile.first_row + r);
    rows += tile.num_rows;
  }
  RC_ASSERT(next_tile == list.num_tiles());
  RC_ASSERT(rows == list.num_rows());
}

// Weight slots: owned experts by ascending id, then replica slots; none twice.
void check_weight_slots(const WorkList& list, const Plan& plan) {
  std::vector<int32_t> seen;
  const auto owner_of = plan.owner_of();
  const auto local = local_index_of(owner_of, plan.dims().num_ranks);
  const int32_t owned = owned_experts(owner_of, plan.dims().num_ranks)[list.rank()];
  for (const Part& part : list.parts()) {
    seen.push_back(part.weight_slot);
    RC_ASSERT(part.is_replica == (owner_of[part.expert] != list.rank()));
    if (part.is_replica) {
      const int32_t slot = part.weight_slot - owned;
      RC_ASSERT(slot >= 0 && slot < plan.dims().replica_slots);
      RC_ASSERT(plan.slot_expert()[list.rank() * plan.dims().replica_slots + slot] == part.expert);
    } else {
      RC_ASSERT(part.weight_slot == local[part.expert]);
    }
  }
  std::sort(seen.begin(), seen.end());
  RC_ASSERT(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}

RC_GTEST_PROP(WorkList, TilesOfAllRanksCoverEveryRowOnce, (uint64_t seed)) {
  Rng rng(seed);
  const RandomCase c = random_case(rng);
  WorkList list;  // reused over ranks and orders, as executors do
  for (const PartOrder order : {PartOrder::kOwnedFirst, PartOrder::kReplicatedFirst}) {
    std::vector<std::vector<int>> computed;
    for (const int32_t total : c.loads.totals()) computed.emplace_back(total, 0);
    for (int32_t rank = 0; rank < c.dims.num_ranks; ++rank) {
      list.assign(c.plan, c.loads, rank, order);
      mark_rows(list, computed);
      check_weight_slots(list, c.plan);
    }
    for (const auto& expert : computed) {
      RC_ASSERT(std::all_of(expert.begin(), expert.end(), [](int times) { return times == 1; }));
    }
  }
}

RC_GTEST_PROP(WorkList, OrderOfParts, (uint64_t seed)) {
  Rng rng(seed);
  const RandomCase c = random_case(rng);
  WorkList list;
  for (int32_t rank = 0; rank < c.dims.num_ranks; ++rank) {
    list.assign(c.plan, c.loads, rank, PartOrder::kOwnedFirst);
    const auto owned_first = [](const Part& a, const Part& b) {
      return a.is_replica < b.is_replica || (a.is_replica == b.is_replica && a.expert < b.expert);
    };
    RC_ASSERT(std::is_sorted(list.parts().begin(), list.parts().end(), owned_first));
    list.assign(c.plan, c.loads, rank, PartOrder::kReplicatedFirst);
    const auto replicated_first = [&](const Part& a, const Part& b) {
      const bool one = c.plan.instances_of(a.expert).size() == 1;
      const bool other = c.plan.instances_of(b.expert).size() == 1;
      return one < other || (one == other && a.expert < b.expert);
    };
    RC_ASSERT(std::is_sorted(list.parts().begin(), list.parts().end(), replicated_first));
  }
}

}  // namespace
}  // namespace megaflux
