#include "megaflux/moe/plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/base/rng.h"
#include "megaflux/moe/owner_table.h"

namespace megaflux {
namespace {

// Owns what a draft points to.
struct Draft {
  PlanDims dims;
  std::vector<int32_t> owner_of;
  std::vector<int32_t> blocks;
  std::vector<DraftReplica> replicas;
  std::vector<int32_t> resident = {};

  PlanDraft view() const {
    return {.dims = dims,
            .owner_of = owner_of,
            .blocks = blocks,
            .replicas = replicas,
            .resident = resident};
  }
  Plan plan() const {
    Plan plan;
    plan.assign(view());
    return plan;
  }
};

// The example of moe/plan.h.
Draft header_example() {
  return {.dims = {.num_experts = 3, .num_ranks = 2, .replica_slots = 1, .block_rows = 128},
          .owner_of = {0, 0, 1},
          .blocks = {5, 1, 1},
          .replicas = {{.expert = 0, .rank = 1, .num_blocks = 2}}};
}

std::vector<Instance> instances_of(const Plan& plan, int32_t expert) {
  const auto instances = plan.instances_of(expert);
  return {instances.begin(), instances.end()};
}

template <typename T>
std::vector<T> copy_of(std::span<const T> values) {
  return {values.begin(), values.end()};
}

std::string error_of(ErrorCode code, auto&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Plan, ExampleOfTheHeader) {
  const Plan plan = header_example().plan();
  EXPECT_EQ(instances_of(plan, 0),
            (std::vector<Instance>{{0, -1, 0, 3},
                                   {.rank = 1, .slot = 0, .first_block = 3, .num_blocks = 2}}));
  EXPECT_EQ(instances_of(plan, 1), (std::vector<Instance>{{0, -1, 0, 1}}));
  EXPECT_EQ(instances_of(plan, 2), (std::vector<Instance>{{1, -1, 0, 1}}));
  EXPECT_EQ(copy_of(plan.slot_expert()), (std::vector<int32_t>{-1, 0}));
  EXPECT_EQ(copy_of(plan.slot_resident()), (std::vector<uint8_t>{0, 0}));
  EXPECT_EQ(copy_of(plan.owner_of()), (std::vector<int32_t>{0, 0, 1}));
  std::vector<int32_t> loads(2, -7);
  plan.blocks_per_rank(loads);
  EXPECT_EQ(loads, (std::vector<int32_t>{4, 3}));
  EXPECT_EQ(plan.num_replicas(), 1);
  EXPECT_EQ(plan.header().num_copies, 1);
  EXPECT_EQ(plan.header().max_blocks, 4);
  EXPECT_EQ(plan.dims(), header_example().dims);
}

TEST(Plan, BytesAreTheDocumentedBuffer) {
  Draft draft = header_example();
  PlanDraft view = draft.view();
  view.flags = kPlanGateRefused;
  view.search_id = 17;
  view.objective = 0x1122334455667788ull;
  Plan plan;
  plan.assign(view);
  // 64 header + 4*3 owners + 4*4 begins + 16*5 instances + 4*2 slots + 2 resident flags.
  ASSERT_EQ(plan.bytes().size(), 64u + 12 + 16 + 80 + 8 + 2);
  const auto word = [&](size_t offset) {
    int32_t value = 0;
    std::memcpy(&value, plan.bytes().data() + offset, 4);
    return value;
  };
  EXPECT_EQ(std::memcmp(plan.bytes().data(), "MFPL", 4), 0);
  EXPECT_EQ(word(4), 1 | kPlanGateRefused << 16);
  const std::array header{3, 2, 1, 128, 4, 17, 4, 1, 0x55667788, 0x11223344};
  for (size_t i = 0; i < header.size(); ++i) EXPECT_EQ(word(8 + 4 * i), header[i]) << i;
  EXPECT_EQ(word(56), 0);
  EXPECT_EQ(word(60), 0);
  const std::array body{0, 0,  1, 0, 2, 3,  4, 0, -1, 0, 3, 1, 0,  3, 2,
                        0, -1, 0, 1, 1, -1, 0, 1, 0,  0, 0, 0, -1, 0};
  for (size_t i = 0; i < body.size(); ++i) EXPECT_EQ(word(64 + 4 * i), body[i]) << i;
}

TEST(Plan, HashCoversContentAndDimensionsOnly) {
  Draft draft = header_example();
  const Plan plan = draft.plan();
  EXPECT_EQ(plan.hash(), plan.computed_hash());
  PlanDraft view = draft.view();
  view.search_id = 5;
  view.objective = 99;
  view.flags = kPlanGateRefused;
  Plan same;
  same.assign(view);
  EXPECT_EQ(same.hash(), plan.hash()) << "how the plan was found is not part of it";
  EXPECT_FALSE(same == plan);
  EXPECT_EQ(plan.marked_from_outside().hash(), plan.hash());
  EXPECT_EQ(plan.marked_from_outside().header().flags, kPlanFromOutside);
  EXPECT_EQ(plan.header().flags, 0);

  std::vector<uint64_t> hashes{plan.hash()};
  draft.dims.block_rows = 64;
  hashes.push_back(draft.plan().hash());
  draft = header_example();
  draft.replicas[0].num_blocks = 1;
  hashes.push_back(draft.plan().hash());
  draft = header_example();
  draft.resident = {-1, 0};
  hashes.push_back(draft.plan().hash());
  draft = header_example();
  draft.owner_of = {0, 1, 1};
  hashes.push_back(draft.plan().hash());
  draft = header_example();
  draft.dims.replica_slots = 2;
  hashes.push_back(draft.plan().hash());
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::unique(hashes.begin(), hashes.end()), hashes.end());
}

TEST(Plan, OwnerStandsAmongItsReplicasByRank) {
  const Draft draft{.dims = {.num_experts = 2, .num_ranks = 4, .replica_slots = 1, .block_rows = 1},
                    .owner_of = {2, 1},
                    .blocks = {10, 0},
                    .replicas = {{0, 3, 4}, {0, 0, 1}, {0, 1, 5}}};
  const Plan plan = draft.plan();
  EXPECT_EQ(instances_of(plan, 0),
            (std::vector<Instance>{{0, 0, 0, 1}, {1, 0, 1, 5}, {2, -1, 6, 0}, {3, 0, 6, 4}}))
      << "the owner is listed with no blocks";
  EXPECT_EQ(instances_of(plan, 1), (std::vector<Instance>{{1, -1, 0, 0}}));
}

TEST(PlanSlots, ResidentKeepsItsSlotAndOthersAvoidResidents) {
  // Rank 1 hosts experts 0, 1 and 2; its four slots hold 9 (not needed), 2, nothing, 0.
  Draft draft{.dims = {.num_experts = 10, .num_ranks = 2, .replica_slots = 4, .block_rows = 1},
              .owner_of = contiguous_owners(10, 2),
              .blocks = std::vector<int32_t>(10, 8),
              .replicas = {{0, 1, 1}, {1, 1, 1}, {2, 1, 1}},
              .resident = {-1, -1, -1, -1, 9, 2, -1, 0}};
  Plan plan = draft.plan();
  EXPECT_EQ(copy_of(plan.slot_expert()), (std::vector<int32_t>{-1, -1, -1, -1, -1, 2, 1, 0}));
  EXPECT_EQ(copy_of(plan.slot_resident()), (std::vector<uint8_t>{0, 0, 0, 0, 0, 1, 0, 1}));
  EXPECT_EQ(plan.header().num_copies, 1);
  EXPECT_EQ(plan.instances_of(0)[1].slot, 3);
  EXPECT_EQ(plan.instances_of(1)[1].slot, 2);
  EXPECT_EQ(plan.instances_of(2)[1].slot, 1);

  draft.replicas = {{3, 1, 1}, {0, 1, 1}, {4, 1, 1}, {1, 1, 1}};
  plan = draft.plan();
  EXPECT_EQ(copy_of(plan.slot_expert()), (std::vector<int32_t>{-1, -1, -1, -1, 3, 4, 1, 0}))
      << "expert 1 takes the empty slot, 3 and 4 then overwrite the residents";
  EXPECT_EQ(plan.header().num_copies, 3);
}

TEST(PlanSlots, ExpertResidentInTwoSlotsUsesTheFirst) {
  Draft draft = header_example();
  draft.dims.replica_slots = 2;
  draft.resident = {-1, -1, 0, 0};
  const Plan plan = draft.plan();
  EXPECT_EQ(copy_of(plan.slot_expert()), (std::vector<int32_t>{-1, -1, 0, -1}));
  EXPECT_EQ(copy_of(plan.slot_resident()), (std::vector<uint8_t>{0, 0, 1, 0}));
}

TEST(PlanDraftErrors, AreInternalAndLeaveThePlanEmpty) {
  Plan plan = header_example().plan();
  const auto broken = [&](auto&& change) {
    Draft draft = header_example();
    change(draft);
    const std::string words = error_of(ErrorCode::kInternal, [&] { plan.assign(draft.view()); });
    EXPECT_TRUE(plan.empty()) << words;
    return words;
  };
  const auto has = [](const std::string& words, const std::string& part) {
    EXPECT_NE(words.find(part), std::string::npos) << words;
  };
  has(broken([](Draft& d) { d.replicas[0].num_blocks = 6; }), "1 blocks more than its 5");
  has(broken([](Draft& d) { d.replicas[0].rank = 0; }), "two instances on rank 0");
  has(broken([](Draft& d) { d.replicas[0].rank = 2; }), "on rank 2");
  has(broken([](Draft& d) { d.replicas[0].expert = 3; }), "expert 3");
  has(broken([](Draft& d) { d.replicas[0].expert = -1; }), "expert -1");
  has(broken([](Draft& d) { d.replicas[0].num_blocks = -1; }), "-1 blocks");
  has(broken([](Draft& d) { d.replicas.push_back({1, 1, 1}); }), "rank 1 has more than 1");
  has(broken([](Draft& d) { d.replicas.assign(3, {0, 1, 1}); }), "3 replicas for 2 slots");
  has(broken([](Draft& d) { d.owner_of = {0, 0, 2}; }), "owner 2");
  has(broken([](Draft& d) { d.owner_of.pop_back(); }), "owner_of has 2 entries");
  has(broken([](Draft& d) { d.blocks[1] = -1; }), "-1 blocks");
  has(broken([](Draft& d) { d.resident = {0}; }), "resident has 1 entries for 2 slots");
  plan.assign(header_example().view());
  EXPECT_EQ(plan, header_example().plan()) << "the same object works again";
}

TEST(PlanDims, LimitsAreNamed) {
  const auto refused = [](PlanDims dims) {
    return error_of(ErrorCode::kBadInput, [&] { check_dims(dims); });
  };
  EXPECT_EQ(refused({4097, 1, 0, 1}), "num_experts: 4097 is outside [1, 4096]");
  EXPECT_EQ(refused({1, 0, 0, 1}), "num_ranks: 0 is outside [1, 1024]");
  EXPECT_EQ(refused({1, 1, -1, 1}), "replica_slots: -1 is outside [0, 1024]");
  EXPECT_EQ(refused({1, 1, 0, (1 << 20) + 1}), "block_rows: 1048577 is outside [1, 1048576]");
  check_dims({4096, 1024, 1024, 1 << 20});
  check_dims({1, 1, 0, 1});
}

// Random legal drafts: any owners, any slots, any residents.
Draft any_draft() {
  Rng rng(*rc::gen::arbitrary<uint64_t>());
  Draft draft;
  const int32_t ranks = 1 + static_cast<int32_t>(rng.below(9));
  draft.dims = {.num_experts = 1 + static_cast<int32_t>(rng.below(20)),
                .num_ranks = ranks,
                .replica_slots = static_cast<int32_t>(rng.below(4)),
                .block_rows = 1 + static_cast<int32_t>(rng.below(200))};
  for (int32_t e = 0; e < draft.dims.num_experts; ++e) {
    draft.owner_of.push_back(rng.below(ranks));
    draft.blocks.push_back(rng.below(30));
  }
  std::vector<int32_t> left = draft.blocks;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    std::vector<bool> here(draft.dims.num_experts, false);
    for (int32_t slot = 0; slot < draft.dims.replica_slots; ++slot) {
      const int32_t e = rng.below(draft.dims.num_experts);
      draft.resident.push_back(static_cast<int32_t>(rng.below(draft.dims.num_experts + 1)) - 1);
      if (here[e] || draft.owner_of[e] == rank || left[e] == 0) continue;
      here[e] = true;
      const int32_t blocks = 1 + static_cast<int32_t>(rng.below(left[e]));
      left[e] -= blocks;
      draft.replicas.insert(
          draft.replicas.begin() + rng.below(static_cast<uint32_t>(draft.replicas.size()) + 1),
          {e, rank, blocks});
    }
  }
  return draft;
}

RC_GTEST_PROP(PlanProperty, LaysOutEveryBlockOnceInRankOrder, ()) {
  const Draft draft = any_draft();
  const Plan plan = draft.plan();
  std::vector<int32_t> slots(plan.slot_expert().size(), -1);
  for (int32_t e = 0; e < draft.dims.num_experts; ++e) {
    int32_t next = 0;
    int32_t last_rank = -1;
    for (const Instance& instance : plan.instances_of(e)) {
      RC_ASSERT(instance.rank > last_rank);
      RC_ASSERT(instance.first_block == next);
      RC_ASSERT((instance.slot < 0) == (instance.rank == draft.owner_of[e]));
      if (instance.slot >= 0) {
        int32_t& slot = slots[instance.rank * draft.dims.replica_slots + instance.slot];
        RC_ASSERT(slot == -1);
        slot = e;
      }
      last_rank = instance.rank;
      next += instance.num_blocks;
    }
    RC_ASSERT(next == draft.blocks[e]);
  }
  RC_ASSERT(std::equal(slots.begin(), slots.end(), plan.slot_expert().begin()));
  for (size_t i = 0; i < slots.size(); ++i) {
    const bool held = slots[i] >= 0 && draft.resident[i] == slots[i];
    RC_ASSERT((plan.slot_resident()[i] != 0) == held);
  }
  for (const DraftReplica& replica : draft.replicas) {
    const auto instances = plan.instances_of(replica.expert);
    RC_ASSERT(std::any_of(instances.begin(), instances.end(), [&](const Instance& i) {
      return i.rank == replica.rank && i.num_blocks == replica.num_blocks;
    }));
  }
}

RC_GTEST_PROP(PlanProperty, OrderOfReplicasAndOldContentDoNotMatter, ()) {
  Draft draft = any_draft();
  Plan reused = any_draft().plan();
  reused.assign(draft.view());
  std::reverse(draft.replicas.begin(), draft.replicas.end());
  RC_ASSERT(reused == draft.plan());
}

RC_GTEST_PROP(PlanProperty, BytesRoundTrip, ()) {
  const Plan plan = any_draft().plan();
  RC_ASSERT(Plan::from_bytes(plan.bytes()) == plan);
}

}  // namespace
}  // namespace megaflux
