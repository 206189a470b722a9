#include "megaflux/plan/legality.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/base/hash.h"
#include "plan/any_plan.h"

namespace megaflux {
namespace {

using Words = std::vector<std::string>;

// The example of plan/legality.h: E 3, P 2, s 1, beta 128, owners {0, 0, 1}, rows {600, 100, 90}.
struct Example {
  PlanConfig config;
  LoadTable loads{2, 3, std::vector<int32_t>{300, 60, 45, 300, 40, 45}};
  std::vector<int32_t> resident;
  std::vector<int32_t> owner_of{0, 0, 1};
  std::vector<int32_t> blocks{5, 1, 1};
  std::vector<DraftReplica> replicas{{.expert = 0, .rank = 1, .num_blocks = 2}};

  Example() { config.dims = {3, 2, 1, 128}; }

  Plan plan() const {
    Plan result;
    result.assign({.dims = config.dims,
                   .owner_of = owner_of,
                   .blocks = blocks,
                   .replicas = replicas,
                   .resident = resident});
    return result;
  }
  // The plan with one 32-bit word of its buffer changed and the hash made right again.
  Plan plan_with(size_t offset, int32_t value) const {
    const Plan good = plan();
    std::vector<std::byte> bytes(good.bytes().begin(), good.bytes().end());
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
    Hasher hasher;
    const auto add_from = [&](size_t begin, size_t end) {
      for (size_t at = begin; at < end; at += 4) {
        uint32_t word = 0;
        std::memcpy(&word, bytes.data() + at, std::min<size_t>(4, end - at));
        hasher.add(word);
      }
    };
    add_from(8, 24);
    add_from(sizeof(PlanHeader), bytes.size());
    const uint64_t hash = hasher.value();
    std::memcpy(bytes.data() + 48, &hash, sizeof(hash));
    return Plan::from_bytes(bytes);
  }
  PlanLayout layout() const { return PlanLayout(config.dims); }
  // Both forms of the check must agree.
  Words check(const Plan& plan) const {
    const Words words = check_plan(plan, loads, config, resident);
    EXPECT_EQ(is_legal(plan, loads, config, resident), words.empty());
    return words;
  }
};

// Offset of field `field` (0 rank, 1 slot, 2 first_block, 3 num_blocks) of instance i.
size_t instance_field(const Example& example, size_t i, size_t field) {
  return example.layout().instances + i * sizeof(Instance) + 4 * field;
}

TEST(Legality, ExampleIsLegal) {
  const Example example;
  EXPECT_EQ(example.check(example.plan()), Words{});
}

TEST(Legality, EmptyPlanAndOtherSizes) {
  Example example;
  EXPECT_EQ(example.check(Plan{}), Words{"the plan is empty"});
  const Plan plan = example.plan();
  example.config.dims.replica_slots = 2;
  EXPECT_EQ(example.check(plan),
            Words{"the plan is for E 3, P 2, s 1, the configuration has E 3, P 2, s 2"});
  example = {};
  example.loads = LoadTable(2, 2, std::vector<int32_t>{1, 2, 3, 4});
  EXPECT_EQ(example.check(plan), Words{"the loads have E 2, P 2, the plan has E 3, P 2"});
}

TEST(Legality, BlockRowsIsThePlansOwn) {
  Example example;
  example.config.dims.block_rows = 1;
  example.blocks = {600, 100, 90};
  const Plan rowwise = example.plan();
  example.config.dims.block_rows = 128;
  EXPECT_EQ(example.check(rowwise), Words{});
}

TEST(Legality, BlocksAreConserved) {
  Example example;
  const Plan plan = example.plan();
  example.loads = LoadTable(2, 3, std::vector<int32_t>{400, 60, 45, 300, 40, 45});
  EXPECT_EQ(example.check(plan), Words{"expert 0: 5 blocks given out, 6 hold its 700 rows"});
  EXPECT_EQ(example.check(example.plan_with(instance_field(example, 1, 3), 3)), Words{})
      << "the sixth block makes it right, the largest load stays 4";
}

TEST(Legality, RangesAreContiguousFromZero) {
  const Example example;
  EXPECT_EQ(example.check(example.plan_with(instance_field(example, 0, 2), 1)),
            (Words{"expert 0: rank 0 begins at block 1, the instances before it end at 0",
                   "expert 0: rank 1 begins at block 3, the instances before it end at 4"}));
  EXPECT_EQ(example.check(example.plan_with(instance_field(example, 1, 2), 4)),
            (Words{"expert 0: rank 1 begins at block 4, the instances before it end at 3",
                   "expert 0: 6 blocks given out, 5 hold its 600 rows"}));
}

TEST(Legality, OneInstanceARankInAscendingOrder) {
  const Example example;
  // IC_01: no rank holds two instances of an expert, no replica sits on its owner.
  EXPECT_EQ(example.check(example.plan_with(instance_field(example, 1, 0), 0)),
            (Words{"expert 0: two instances on rank 0",
                   "expert 0: replica in slot 0 of its own owner, rank 0",
                   "expert 0: replica in slot 0 of rank 0, which slot_expert gives to -1",
                   "header: max_blocks 4, the largest load is 6"}));
  Example reversed;
  reversed.owner_of = {1, 0, 1};
  reversed.config.owner_of = reversed.owner_of;
  reversed.replicas = {{.expert = 0, .rank = 0, .num_blocks = 2}};
  // The replica's rank 0 becomes 1: the owner's entry stands behind it on the same rank.
  const Words words = reversed.check(reversed.plan_with(instance_field(reversed, 0, 0), 1));
  EXPECT_EQ(words.at(1), "expert 0: replica in slot 0 of rank 1, which slot_expert gives to -1");
  EXPECT_EQ(words.at(0), "expert 0: replica in slot 0 of its own owner, rank 1");
  EXPECT_EQ(words.at(2), "expert 0: two instances on rank 1");
  Example three;
  three.config.dims = {1, 3, 1, 128};
  three.loads = LoadTable(3, 1, std::vector<int32_t>{300, 300, 0});
  three.owner_of = {0};
  three.blocks = {5};
  three.replicas = {{0, 1, 1}, {0, 2, 1}};
  EXPECT_EQ(three.check(three.plan_with(instance_field(three, 0, 0), 2)).at(1),
            "expert 0: rank 1 stands after rank 2; instances are in ascending rank order");
}

TEST(Legality, OwnerTableAndOwnersInstance) {
  Example example;
  example.config.owner_of = {0, 1, 1};
  EXPECT_EQ(example.check(example.plan()),
            Words{"expert 1: owner 0 in the plan, 1 in the configuration"});
  example = {};
  EXPECT_EQ(example.check(example.plan_with(example.layout().owner_of + 8, 0)),
            (Words{"expert 2: owner 0 in the plan, 1 in the configuration",
                   "expert 2: on rank 1 without a slot, its owner is 0",
                   "expert 2: its owner 0 is not among its instances"}));
}

TEST(Legality, ContiguousOwnersOfUnevenExperts) {
  // E mod P != 0 and ranks without experts: IC_20.
  for (const auto& [experts, ranks] :
       std::vector<std::pair<int32_t, int32_t>>{{10, 4}, {7, 8}, {1, 3}, {160, 6}, {256, 6}}) {
    Example example;
    example.config.dims = {experts, ranks, 0, 128};
    example.owner_of = contiguous_owners(experts, ranks);
    example.blocks.assign(experts, ranks);
    example.replicas.clear();
    example.loads =
        LoadTable(ranks, experts, std::vector<int32_t>(static_cast<size_t>(experts) * ranks, 128));
    EXPECT_EQ(example.check(example.plan()), Words{}) << experts << " on " << ranks;
    example.config.owner_of = example.owner_of;
    EXPECT_EQ(example.check(example.plan()), Words{});
    example.config.owner_of[experts - 1] = ranks - 1 - example.owner_of[experts - 1];
    EXPECT_EQ(example.check(example.plan()).empty(), example.config.owner_of == example.owner_of);
  }
}

TEST(Legality, ReplicaWithoutRows) {
  // IC_44: an expert without rows has no replica.
  Example example;
  example.loads = LoadTable(2, 3, std::vector<int32_t>{0, 60, 45, 0, 40, 45});
  example.blocks = {0, 1, 1};
  example.replicas[0].num_blocks = 0;
  EXPECT_EQ(example.check(example.plan()), Words{"expert 0: 1 replicas, but no rows"});
}

TEST(Legality, ReplicaWithoutBlocksIsWastefulNotIllegal) {
  Example example;
  example.replicas[0].num_blocks = 0;
  EXPECT_EQ(example.check(example.plan()), Words{});
}

TEST(Legality, DomainsAndInactiveRanks) {
  Example example;
  example.config.domain_of = {4, 7};
  EXPECT_EQ(example.check(example.plan()),
            Words{"expert 0: replica on rank 1 of domain 7, its owner 0 is in domain 4"});
  example = {};
  example.config.active = {1, 0};
  EXPECT_EQ(example.check(example.plan()),
            (Words{"expert 0: replica on rank 1, which is inactive",
                   "expert 2: orphan, 90 rows for an expert whose owner 1 is inactive"}));
  example.loads = LoadTable(2, 3, std::vector<int32_t>{300, 60, 0, 300, 40, 0});
  example.blocks = {5, 1, 0};
  example.replicas.clear();
  EXPECT_EQ(example.check(example.plan()), Words{}) << "no rows, no orphan";
}

TEST(Legality, SlotTableAgreesWithInstances) {
  const Example example;
  EXPECT_EQ(example.check(example.plan_with(example.layout().slot_expert + 4, 1)),
            Words{"expert 0: replica in slot 0 of rank 1, which slot_expert gives to 1"});
  EXPECT_EQ(example.check(example.plan_with(example.layout().slot_expert, 2)),
            (Words{"slot_expert: 2 slots are filled, the instances have 1 replicas",
                   "header: num_copies 1, 2 replicas are not resident"}));
}

TEST(Legality, ResidentFlagsNeedAResident) {
  Example example;
  example.resident = {-1, 0};
  const Plan resident_plan = example.plan();
  EXPECT_EQ(example.check(resident_plan), Words{});
  example.resident = {-1, 1};
  EXPECT_EQ(example.check(resident_plan),
            Words{"rank 1, slot 0: expert 0 is marked resident, the slot holds 1"});
  example.resident = {};
  EXPECT_EQ(example.check(resident_plan),
            Words{"rank 1, slot 0: expert 0 is marked resident, the slot holds -1"});
  const Plan copying = example.plan();
  example.resident = {-1, 0};
  EXPECT_EQ(example.check(copying), Words{}) << "copying what is there already is only slow";
}

TEST(Legality, HeaderAgreesWithContent) {
  const Example example;
  EXPECT_EQ(example.check(example.plan_with(32, 3)),
            Words{"header: max_blocks 3, the largest load is 4"});
  EXPECT_EQ(example.check(example.plan_with(36, 0)),
            Words{"header: num_copies 0, 1 replicas are not resident"});
  // Version 1 in the low half of the word at 4, flags in the high half.
  EXPECT_EQ(example.check(example.plan_with(4, 1 | kPlanGateRefused << 16)),
            Words{"header: a gate refused replication, but there are 1 replicas"});
}

TEST(Legality, TablesOfTheWrongSizeAreBadInput) {
  Example example;
  const Plan plan = example.plan();
  const auto error = [&] {
    try {
      is_legal(plan, example.loads, example.config, example.resident);
    } catch (const Error& caught) {
      return std::string(caught.what());
    }
    return std::string("no error");
  };
  example.resident = {0};
  EXPECT_EQ(error(), "resident: 1 entries, 2 expected");
  example = {};
  example.config.active = {1, 1, 1};
  EXPECT_EQ(error(), "active: 3 entries, 2 expected");
  example = {};
  example.config.domain_of = {1};
  EXPECT_EQ(error(), "domain_of: 1 entries, 2 expected");
  example = {};
  example.config.owner_of = {0};
  EXPECT_EQ(error(), "owner_of: 1 entries, 3 expected");
}

TEST(AdoptPlan, AcceptsAndMarks) {
  const Example example;
  const Plan plan = example.plan();
  const Plan adopted = adopt_plan(plan.bytes(), example.loads, example.config);
  EXPECT_EQ(adopted.header().flags, kPlanFromOutside);
  EXPECT_EQ(adopted.hash(), plan.hash());
  EXPECT_EQ(adopted, plan.marked_from_outside());
}

TEST(AdoptPlan, RefusesWithTheFirstViolations) {
  Example example;
  const Plan plan = example.plan();
  example.config.owner_of = {1, 1, 0};
  example.config.domain_of = {0, 1};
  try {
    adopt_plan(plan.bytes(), example.loads, example.config);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_STREQ(error.what(),
                 "plan from outside is not legal: expert 0: owner 0 in the plan, 1 in the "
                 "configuration; expert 1: owner 0 in the plan, 1 in the configuration; expert 2: "
                 "owner 1 in the plan, 0 in the configuration; and 1 more");
  }
}

TEST(AdoptPlan, RefusesBytesThatAreNoPlan) {
  const Example example;
  const Plan plan = example.plan();
  EXPECT_THROW(adopt_plan(plan.bytes().first(40), example.loads, example.config), Error);
}

RC_GTEST_PROP(LegalityProperty, LaidOutDraftsAreLegal, ()) {
  Rng rng(*rc::gen::arbitrary<uint64_t>());
  const PlanCase c = any_plan_case(rng);
  RC_ASSERT(check_plan(c.plan, c.loads, c.config, c.resident) == Words{});
  RC_ASSERT(is_legal(c.plan, c.loads, c.config, c.resident));
}

// Both forms agree on plans that are damaged anywhere but in what from_bytes refuses.
RC_GTEST_PROP(LegalityProperty, BothFormsAgreeOnDamagedPlans, ()) {
  Rng rng(*rc::gen::arbitrary<uint64_t>());
  const PlanCase c = any_plan_case(rng);
  std::vector<std::byte> bytes(c.plan.bytes().begin(), c.plan.bytes().end());
  const size_t words = bytes.size() / 4;
  const size_t at = 4 * (7 + rng.below(static_cast<uint32_t>(words - 7)));
  const int32_t value = static_cast<int32_t>(rng.below(30)) - 1;
  std::memcpy(bytes.data() + at, &value, 4);
  Hasher hasher;
  for (size_t i = 8; i < bytes.size(); i += 4) {
    if (i == 24) i = sizeof(PlanHeader);
    uint32_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(4, bytes.size() - i));
    hasher.add(word);
  }
  const uint64_t hash = hasher.value();
  std::memcpy(bytes.data() + 48, &hash, 8);
  Plan damaged;
  try {
    damaged = Plan::from_bytes(bytes);
  } catch (const Error&) {
    return;
  }
  RC_ASSERT(is_legal(damaged, c.loads, c.config, c.resident) ==
            check_plan(damaged, c.loads, c.config, c.resident).empty());
}

}  // namespace
}  // namespace megaflux
