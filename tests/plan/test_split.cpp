#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/plan/split_table.h"
#include "plan/any_plan.h"

namespace megaflux {
namespace {

using Counts = std::vector<int32_t>;

// One expert owned by rank 0, row-granular: replicas on ranks with the given quotas.
struct OneExpert {
  LoadTable loads;
  Plan plan;
  SplitTable split;

  OneExpert(const Counts& sources, const std::vector<DraftReplica>& replicas)
      : loads(static_cast<int32_t>(sources.size()), 1, sources) {
    const Counts owner_of{0};
    const Counts blocks{static_cast<int32_t>(loads.total_rows())};
    plan.assign({.dims = {1, loads.num_ranks(), 1, 1},
                 .owner_of = owner_of,
                 .blocks = blocks,
                 .replicas = replicas});
    split.assign(plan, loads);
  }
  Counts rows(int32_t source) const {
    const auto own = split.rows(source, 0);
    return {own.begin(), own.end()};
  }
};

TEST(SplitTable, ExampleOfTheHeader) {
  const OneExpert example({6, 0, 4, 2}, {{0, 1, 4}});
  EXPECT_EQ(example.rows(0), (Counts{6, 0}));
  EXPECT_EQ(example.rows(1), (Counts{0, 0}));
  EXPECT_EQ(example.rows(2), (Counts{1, 3}));
  EXPECT_EQ(example.rows(3), (Counts{1, 1}));
  EXPECT_EQ(example.split.instance_of(2, 0, 0), 0);
  EXPECT_EQ(example.split.instance_of(2, 0, 1), 1);
  EXPECT_EQ(example.split.instance_of(2, 0, 3), 1);
  EXPECT_THROW(example.split.instance_of(2, 0, 4), Error);
  EXPECT_THROW(example.split.instance_of(1, 0, 0), Error);
}

TEST(SplitTable, EvenQuotaOfOneSource) {
  // IC_02: 4096 rows of one expert, two instances, half each; which column k held the expert is no
  // input.
  const OneExpert example({4096, 0}, {{0, 1, 2048}});
  EXPECT_EQ(example.rows(0), (Counts{2048, 2048}));
  std::array<int, 2> executed{};
  for (int32_t row = 0; row < 4096; ++row) ++executed.at(example.split.instance_of(0, 0, row));
  EXPECT_EQ(executed, (std::array<int, 2>{2048, 2048}));
}

TEST(SplitTable, LocalityOnlyBreaksTies) {
  // IC_03: three instances, two of them near, 16 sources with equal rows: each instance still gets
  // its third.
  const OneExpert example(Counts(16, 300), {{0, 1, 1600}, {0, 8, 1600}});
  Counts columns(3, 0);
  for (int32_t source = 0; source < 16; ++source) {
    const Counts own = example.rows(source);
    for (size_t i = 0; i < 3; ++i) columns[i] += own[i];
    const Counts expected = source == 0   ? Counts{300, 0, 0}
                            : source == 1 ? Counts{0, 300, 0}
                            : source == 8 ? Counts{0, 0, 300}
                                          : Counts{100, 100, 100};
    EXPECT_EQ(own, expected) << source;
  }
  EXPECT_EQ(columns, (Counts{1600, 1600, 1600}));
}

TEST(SplitTable, EachRowIsExecutedOnce) {
  // IC_04: 48 replicas over two ranks; both ranks build the map, and every row has one instance.
  constexpr int32_t kExperts = 96;
  Rng rng(4);
  Counts rows;
  for (int32_t i = 0; i < 2 * kExperts; ++i) rows.push_back(rng.below(50));
  const LoadTable loads(2, kExperts, rows);
  const Counts owner_of = contiguous_owners(kExperts, 2);
  Counts blocks;
  std::vector<DraftReplica> replicas;
  for (int32_t e = 0; e < kExperts; ++e) {
    blocks.push_back(loads.blocks(e, 1));
    if (e % 2 == 0 && blocks[e] > 0) replicas.push_back({e, 1 - owner_of[e], blocks[e] / 2});
  }
  Plan plan;
  plan.assign(
      {.dims = {kExperts, 2, 24, 1}, .owner_of = owner_of, .blocks = blocks, .replicas = replicas});
  ASSERT_EQ(plan.num_replicas(), 48);
  SplitTable on_rank[2];
  for (SplitTable& split : on_rank) split.assign(plan, loads);
  for (int32_t e = 0; e < kExperts; ++e) {
    Counts executed(plan.instances_of(e).size(), 0);
    for (int32_t source = 0; source < 2; ++source) {
      for (int32_t row = 0; row < loads.rows(source, e); ++row) {
        const int32_t instance = on_rank[0].instance_of(source, e, row);
        ASSERT_EQ(instance, on_rank[1].instance_of(source, e, row));
        ++executed.at(instance);
      }
    }
    for (size_t i = 0; i < executed.size(); ++i) {
      EXPECT_EQ(executed[i], plan.instances_of(e)[i].num_blocks);
    }
  }
}

TEST(SplitTable, SameMapInEveryRun) {
  // IC_66: a thousand runs, tables reused for other plans in between.
  Rng rng(66);
  const PlanCase c = any_plan_case(rng);
  SplitTable first;
  first.assign(c.plan, c.loads);
  SplitTable reused;
  for (int run = 0; run < 1000; ++run) {
    if (run % 10 == 0) {
      const PlanCase other = any_plan_case(rng);
      reused.assign(other.plan, other.loads);
    }
    reused.assign(c.plan, c.loads);
    for (int32_t e = 0; e < c.loads.num_experts(); ++e) {
      for (int32_t source = 0; source < c.loads.num_ranks(); ++source) {
        const auto a = first.rows(source, e);
        const auto b = reused.rows(source, e);
        ASSERT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
      }
    }
  }
}

TEST(SplitTable, LargestCountsDoNotOverflow) {
  const OneExpert example({2'000'000'000, 0, 100'000'000}, {{0, 1, 1'500'000'000}});
  EXPECT_EQ(example.rows(0), (Counts{600'000'000, 1'400'000'000}));
  EXPECT_EQ(example.rows(2), (Counts{0, 100'000'000}));
}

TEST(SplitTable, ReusesItsMemory) {
  Rng rng(5);
  const PlanCase c = any_plan_case(rng);
  SplitTable split;
  split.assign(c.plan, c.loads);
  const int32_t* memory = split.rows(0, 0).data();
  for (int run = 0; run < 5; ++run) split.assign(c.plan, c.loads);
  EXPECT_EQ(split.rows(0, 0).data(), memory);
}

TEST(SplitTable, NeedsSourcesAndTheRightLoads) {
  const OneExpert example({6, 0}, {});
  SplitTable split;
  const std::vector<int64_t> totals{6};
  EXPECT_THROW(split.assign(example.plan, LoadTable::from_totals(2, totals)), Error);
  EXPECT_THROW(split.assign(example.plan, LoadTable(3, 1, Counts{6, 0, 0})), Error);
  EXPECT_THROW(split.assign(Plan(), LoadTable(2, 1, Counts{6, 0})), Error);
}

RC_GTEST_PROP(SplitTableProperty, SumsAreExactAndLocalRowsStay, ()) {
  Rng rng(*rc::gen::arbitrary<uint64_t>());
  const PlanCase c = any_plan_case(rng);
  SplitTable split;
  split.assign(c.plan, c.loads);
  const PlanDims dims = c.plan.dims();
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    const auto instances = c.plan.instances_of(e);
    std::vector<int64_t> columns(instances.size(), 0);
    for (int32_t source = 0; source < dims.num_ranks; ++source) {
      const auto own = split.rows(source, e);
      RC_ASSERT(own.size() == instances.size());
      int64_t sum = 0;
      for (size_t i = 0; i < own.size(); ++i) {
        RC_ASSERT(own[i] >= 0);
        columns[i] += own[i];
        sum += own[i];
      }
      RC_ASSERT(sum == c.loads.rows(source, e));
    }
    for (size_t i = 0; i < instances.size(); ++i) {
      const int64_t quota = c.loads.rows_in_blocks(e, instances[i].first_block,
                                                   instances[i].num_blocks, dims.block_rows);
      RC_ASSERT(columns[i] == quota);
      const int32_t rank = instances[i].rank;
      RC_ASSERT(split.rows(rank, e)[i] == std::min<int64_t>(c.loads.rows(rank, e), quota));
    }
  }
}

// Every cell lies within `kSlackRows` rows of the proportional share of what local rows leave.
RC_GTEST_PROP(SplitTableProperty, RemoteRowsAreProportional, ()) {
  constexpr double kSlackRows = 2.0;
  Rng rng(*rc::gen::arbitrary<uint64_t>());
  const PlanCase c = any_plan_case(rng);
  SplitTable split;
  split.assign(c.plan, c.loads);
  const PlanDims dims = c.plan.dims();
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    const auto instances = c.plan.instances_of(e);
    std::vector<double> quota_left;
    std::vector<double> source_left;
    for (int32_t source = 0; source < dims.num_ranks; ++source) {
      source_left.push_back(c.loads.rows(source, e));
    }
    for (size_t i = 0; i < instances.size(); ++i) {
      const int32_t local = split.rows(instances[i].rank, e)[i];
      quota_left.push_back(
          static_cast<double>(c.loads.rows_in_blocks(e, instances[i].first_block,
                                                     instances[i].num_blocks, dims.block_rows) -
                              local));
      source_left[instances[i].rank] -= local;
    }
    const double total = std::accumulate(quota_left.begin(), quota_left.end(), 0.0);
    if (total == 0) continue;
    for (int32_t source = 0; source < dims.num_ranks; ++source) {
      for (size_t i = 0; i < instances.size(); ++i) {
        if (instances[i].rank == source) continue;
        const double share = source_left[source] * quota_left[i] / total;
        RC_ASSERT(std::abs(split.rows(source, e)[i] - share) < kSlackRows);
      }
    }
  }
}

}  // namespace
}  // namespace megaflux
