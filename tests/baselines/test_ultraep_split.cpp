// UltraEP's split: exact for every source, not for every instance.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <vector>

#include "baselines/baseline_fixture.h"
#include "megaflux/base/check.h"
#include "megaflux/base/rng.h"
#include "megaflux/plan/baselines/ultraep_split.h"
#include "plan/any_plan.h"

namespace megaflux {
namespace {

TEST(UltraepSplit, every_source_rounds_alike_so_instances_miss_their_quotas) {
  // The example of the header: one expert, twelve rows, quotas {6, 6}.
  const LoadTable loads(4, 1, std::vector<int32_t>{3, 3, 3, 3});
  Plan plan;
  const std::vector<DraftReplica> replicas = {{.expert = 0, .rank = 1, .num_blocks = 6}};
  plan.assign({.dims = {1, 4, 1, 1},
               .owner_of = std::vector<int32_t>{0},
               .blocks = std::vector<int32_t>{12},
               .replicas = replicas});
  const UltraepSplit split = split_ultraep(plan, loads);
  EXPECT_EQ(split.rows, (std::vector<int32_t>{3, 0, 0, 3, 2, 1, 2, 1}));
  EXPECT_EQ(split.rank_rows, (std::vector<int64_t>{7, 5, 0, 0}));
}

TEST(UltraepSplit, totals_have_no_sources) {
  const std::vector<int64_t> totals = {40, 1, 1, 1};
  const PlanConfig config = baseline_config(PlannerKind::kUltraep, totals, 4, 1);
  EXPECT_THROW(split_ultraep(run_baseline(config, totals).plan, loads_of(4, totals)), Error);
}

RC_GTEST_PROP(UltraepSplit, sources_are_exact_and_instances_miss_by_less_than_a_row_a_source, ()) {
  Rng rng(*rc::gen::arbitrary<uint64_t>());
  const PlanCase any = any_plan_case(rng);
  const UltraepSplit split = split_ultraep(any.plan, any.loads);
  const int32_t num_ranks = any.config.dims.num_ranks;
  int64_t realised = 0;
  for (int32_t e = 0; e < any.config.dims.num_experts; ++e) {
    const auto instances = any.plan.instances_of(e);
    const size_t columns = instances.size();
    const int32_t* table = split.rows.data() + static_cast<size_t>(num_ranks) * split.begin[e];
    std::vector<int64_t> got(columns, 0);
    for (int32_t source = 0; source < num_ranks; ++source) {
      int64_t sum = 0;
      for (size_t i = 0; i < columns; ++i) {
        RC_ASSERT(table[source * columns + i] >= 0);
        sum += table[source * columns + i];
        got[i] += table[source * columns + i];
      }
      RC_ASSERT(sum == any.loads.rows(source, e));
    }
    for (size_t i = 0; i < columns; ++i) {
      const int64_t quota = any.loads.rows_in_blocks(
          e, instances[i].first_block, instances[i].num_blocks, any.plan.header().block_rows);
      RC_ASSERT(std::abs(got[i] - quota) <= num_ranks - 1 || num_ranks == 1);
    }
  }
  for (const int64_t rows : split.rank_rows) realised += rows;
  RC_ASSERT(realised == any.loads.total_rows());
}

}  // namespace
}  // namespace megaflux
