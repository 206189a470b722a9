// Planners at the limits of what check_config and LoadTable let through: nothing overflows (the
// sanitizer presets see that), and every search ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "megaflux/base/rng.h"
#include "megaflux/plan/legality.h"
#include "plan/planner_fixture.h"

namespace megaflux {
namespace {

constexpr int64_t kMostRows = (int64_t{1} << 31) - 1;
constexpr int64_t kMostBaseRows = int64_t{1} << 30;

// 0, the limit, a little less, or anything between.
int64_t extreme(Rng& rng, int64_t limit) {
  switch (rng.below(4)) {
    case 0:
      return 0;
    case 1:
      return limit;
    case 2:
      return std::max<int64_t>(0, limit - rng.below(100));
    default:
      return static_cast<int64_t>(rng.uniform() * static_cast<double>(limit));
  }
}

PlanConfig extreme_config(Rng& rng) {
  const auto below = [&rng](uint32_t bound) { return static_cast<int32_t>(rng.below(bound)); };
  PlanConfig config;
  config.planner = static_cast<PlannerKind>(below(4));
  config.objective = static_cast<Objective>(below(3));
  config.dims = {1 + below(12), 1 + below(7), below(4), below(2) == 0 ? 1 : 1 << below(21)};
  const int64_t most_blocks = kMostBaseRows / config.dims.block_rows;
  config.lambda_blocks = static_cast<int32_t>(extreme(rng, most_blocks));
  config.slack_ppm = static_cast<int32_t>(extreme(rng, 10'000'000));
  config.min_copy_blocks = static_cast<int32_t>(1 + extreme(rng, kMostRows - 1));
  config.min_rows_per_replica =
      static_cast<int32_t>(1 + extreme(rng, below(2) == 0 ? 100 : kMostRows - 1));
  const bool has_base = below(2) == 0, has_speed = below(2) == 0;
  for (int32_t r = 0; r < config.dims.num_ranks; ++r) {
    if (has_base) {
      config.base_blocks.push_back(static_cast<int32_t>(extreme(rng, most_blocks)));
    }
    // Finish times far apart make the quota planner's grid long, so speeds span a factor of 1000.
    if (has_speed) config.speed.push_back(static_cast<uint16_t>(64 + extreme(rng, 65'471)));
  }
  constexpr int64_t kMostCost = int64_t{1} << 62;
  if (config.objective == Objective::kCost || below(2) == 0) {
    const auto cost = [&] { return static_cast<uint64_t>(extreme(rng, kMostCost)); };
    config.cost = CostModel{.block_ps = 1 + cost(),
                            .weight_bytes = cost(),
                            .gradient_bytes = cost(),
                            .link_bytes_per_us = 1 + cost(),
                            .send_bytes_per_us = cost(),
                            .plan_ns = cost(),
                            .pre_gate_ns = cost(),
                            .copy_latency_ns = cost(),
                            .round_ns = cost(),
                            .pool_blocks = extreme(rng, 1000)};
  }
  return config;
}

LoadTable extreme_loads(Rng& rng, const PlanDims& dims) {
  int64_t left = extreme(rng, kMostRows);
  std::vector<int64_t> totals(dims.num_experts, 0);
  for (int64_t& rows : totals) {
    rows = extreme(rng, left);
    left -= rows;
  }
  totals[0] += rng.below(2) * left;
  return loads_of(dims.num_ranks, totals);
}

TEST(PlannerLimits, plans_are_legal_and_no_worse_than_fixed) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Rng rng(seed);
    PlanConfig config = extreme_config(rng);
    const LoadTable loads = extreme_loads(rng, config.dims);
    std::vector<int32_t> resident;
    if (rng.below(2) == 0) {
      for (int32_t i = 0; i < config.dims.num_ranks * config.dims.replica_slots; ++i) {
        resident.push_back(static_cast<int32_t>(rng.below(config.dims.num_experts + 1)) - 1);
      }
    }
    const Planned planned = plan_once(config, loads, resident);
    ASSERT_TRUE(check_plan(planned.plan, loads, config, resident).empty()) << "seed " << seed;
    if (config.objective == Objective::kCost) {
      ASSERT_LE(planned.report.predicted_ns, planned.report.predicted_fixed_ns) << "seed " << seed;
    }
  }
}

TEST(PlannerLimits, quota_sees_at_once_that_no_replica_can_be_large_enough) {
  // The first threshold is 791 and the last 400,000: the grid between them is 400,000 steps long.
  PlanConfig config = row_config(PlannerKind::kQuota, 4096, 1024, 2);
  config.min_rows_per_replica = 200'000;
  std::vector<int64_t> totals(4096, 100);
  std::fill_n(totals.begin(), 4, 100'000);
  const Planned planned = plan_once(config, loads_of(1024, totals));
  EXPECT_EQ(planned.plan.num_replicas(), 0);
  EXPECT_EQ(planned.plan.header().max_blocks, 400'000);
}

TEST(PlannerLimits, quota_ends_where_lambda_forbids_every_replica) {
  // The owner runs at 1/1024 of full speed, so its finish time is 2^41 and tau is near 2^19.
  PlanConfig config = row_config(PlannerKind::kQuota, 1, 64, 3);
  config.objective = Objective::kBackward;
  config.lambda_blocks = kMostBaseRows;
  config.speed.assign(64, 65'535);
  config.speed[0] = 1;
  const int64_t rows = kMostBaseRows;
  const Planned planned = plan_once(config, loads_of(64, {rows}));
  EXPECT_EQ(planned.plan.num_replicas(), 0);
  EXPECT_EQ(planned.plan.header().objective, static_cast<uint64_t>(rows) * 1024);
}

}  // namespace
}  // namespace megaflux
