#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/plan/plan_maps.h"
#include "plan/any_plan.h"

namespace megaflux {
namespace {

using Ids = std::vector<int32_t>;

TEST(PlanMaps, ExampleOfTheHeader) {
  const Ids owner_of{0, 0, 1};
  const Ids blocks{5, 1, 1};
  const std::vector<DraftReplica> replicas{{.expert = 0, .rank = 1, .num_blocks = 2}};
  Plan plan;
  plan.assign(
      {.dims = {3, 2, 1, 128}, .owner_of = owner_of, .blocks = blocks, .replicas = replicas});
  const PlanMaps maps = plan_maps(plan);
  EXPECT_EQ(maps.num_ranks, 2);
  EXPECT_EQ(maps.replica_slots, 1);
  EXPECT_EQ(maps.num_physical, 5);
  EXPECT_EQ(maps.max_copies, 2);
  EXPECT_EQ(maps.rank_begin, (Ids{0, 3, 5}));
  EXPECT_EQ(maps.physical_to_logical, (Ids{0, 1, -1, 2, 0}));
  EXPECT_EQ(maps.logical_to_physical, (Ids{0, 4, 1, -1, 3, -1}));
  EXPECT_EQ(maps.logical_replica_count, (Ids{2, 1, 1}));
  EXPECT_EQ(maps.slot_experts, (Ids{-1, 0}));
  EXPECT_EQ(maps.source_slots, (Ids{-1, 0}));
  EXPECT_EQ(maps.experts_to_copy, (Ids{-1, 0}));
}

TEST(PlanMaps, ScatteredOwnersAndResidents) {
  // Owners alternate; expert 3 (owner 1) has replicas on ranks 0 and 2, the one on rank 2 resident
  // in slot 1; expert 0 (owner 0) has one on rank 2.
  const Ids owner_of{0, 1, 0, 1, 2};
  const Ids blocks{4, 4, 4, 9, 4};
  const std::vector<DraftReplica> replicas{{3, 2, 2}, {3, 0, 3}, {0, 2, 1}};
  const Ids resident{-1, -1, -1, -1, -1, 3};
  Plan plan;
  plan.assign({.dims = {5, 3, 2, 1},
               .owner_of = owner_of,
               .blocks = blocks,
               .replicas = replicas,
               .resident = resident});
  const PlanMaps maps = plan_maps(plan);
  // Rank 0: experts 0, 2, slots 2, 3; rank 1: experts 1, 3, slots 6, 7; rank 2: expert 4, slots
  // 9, 10.
  EXPECT_EQ(maps.rank_begin, (Ids{0, 4, 8, 11}));
  EXPECT_EQ(maps.physical_to_logical, (Ids{0, 2, 3, -1, 1, 3, -1, -1, 4, 0, 3}));
  EXPECT_EQ(maps.logical_to_physical, (Ids{0, 9, -1, 4, -1, -1, 1, -1, -1, 5, 2, 10, 8, -1, -1}));
  EXPECT_EQ(maps.logical_replica_count, (Ids{2, 1, 1, 3, 1}));
  EXPECT_EQ(maps.slot_experts, (Ids{3, -1, -1, -1, 0, 3}));
  EXPECT_EQ(maps.source_slots, (Ids{5, -1, -1, -1, 0, 5}));
  EXPECT_EQ(maps.experts_to_copy, (Ids{3, -1, -1, -1, 0, -1}));
}

TEST(PlanMaps, RankWithoutExpertsAndNoSlots) {
  // IC_20: seven experts on eight ranks.
  const Ids owner_of = contiguous_owners(7, 8);
  const Ids blocks(7, 1);
  Plan plan;
  plan.assign({.dims = {7, 8, 0, 128}, .owner_of = owner_of, .blocks = blocks, .replicas = {}});
  const PlanMaps maps = plan_maps(plan);
  EXPECT_EQ(maps.rank_begin, (Ids{0, 1, 2, 3, 4, 5, 6, 7, 7}));
  EXPECT_EQ(maps.physical_to_logical, (Ids{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(maps.logical_to_physical, (Ids{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(maps.slot_experts.empty());
}

TEST(PlanMaps, EmptyPlanIsBadInput) {
  EXPECT_THROW(plan_maps(Plan{}), Error);
}

RC_GTEST_PROP(PlanMapsProperty, MapsAreInverseAndCoverEveryInstance, ()) {
  Rng rng(*rc::gen::arbitrary<uint64_t>());
  const PlanCase c = any_plan_case(rng);
  const PlanMaps maps = plan_maps(c.plan);
  const PlanDims dims = c.plan.dims();
  int32_t filled = 0;
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    const auto instances = c.plan.instances_of(e);
    RC_ASSERT(maps.logical_replica_count[e] == static_cast<int32_t>(instances.size()));
    std::vector<int32_t> ranks;
    for (int32_t i = 0; i < maps.max_copies; ++i) {
      const int32_t id = maps.logical_to_physical[e * maps.max_copies + i];
      RC_ASSERT((id >= 0) == (i < maps.logical_replica_count[e]));
      if (id < 0) continue;
      ++filled;
      RC_ASSERT(maps.physical_to_logical.at(id) == e);
      const auto after = std::upper_bound(maps.rank_begin.begin(), maps.rank_begin.end(), id);
      ranks.push_back(static_cast<int32_t>(after - maps.rank_begin.begin()) - 1);
    }
    RC_ASSERT(ranks.front() == c.plan.owner_of()[e]);
    RC_ASSERT(std::is_sorted(ranks.begin() + 1, ranks.end()));
    std::sort(ranks.begin(), ranks.end());
    for (size_t i = 0; i < ranks.size(); ++i) RC_ASSERT(ranks[i] == instances[i].rank);
  }
  const auto& physical = maps.physical_to_logical;
  RC_ASSERT(filled == static_cast<int32_t>(physical.size()) -
                          std::count(physical.begin(), physical.end(), -1));
  for (size_t i = 0; i < maps.slot_experts.size(); ++i) {
    const int32_t source = maps.source_slots[i];
    RC_ASSERT((source < 0 ? -1 : physical.at(source)) == maps.slot_experts[i]);
    RC_ASSERT(maps.experts_to_copy[i] == -1 || maps.experts_to_copy[i] == maps.slot_experts[i]);
  }
  const auto& copies = maps.experts_to_copy;
  RC_ASSERT(static_cast<int32_t>(copies.size()) - std::count(copies.begin(), copies.end(), -1) ==
            c.plan.header().num_copies);
}

}  // namespace
}  // namespace megaflux
