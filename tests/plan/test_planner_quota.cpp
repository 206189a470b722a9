// The quota planner: golden thresholds and what it promises about rows.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

#include "megaflux/base/math.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/plan/legality.h"
#include "megaflux/plan/problem.h"
#include "megaflux/plan/search/quota.h"
#include "megaflux/plan/search/refine.h"
#include "megaflux/plan/search_state.h"
#include "plan/planner_fixture.h"

namespace megaflux {
namespace {

PlanConfig quota_config(int32_t num_experts, int32_t num_ranks, int32_t slots, int32_t slack_ppm) {
  PlanConfig config = row_config(PlannerKind::kQuota, num_experts, num_ranks, slots);
  config.dims.block_rows = 128;
  config.slack_ppm = slack_ppm;
  return config;
}

TEST(PlannerQuota, case_A_fills_two_ranks_to_the_threshold) {
  const Planned planned = plan_once(quota_config(4, 4, 1, 10'000), loads_of(4, {65536, 0, 0, 0}));
  EXPECT_EQ(planned.loads, (std::vector<int32_t>{16548, 16548, 16548, 15892}));
  EXPECT_EQ(planned.plan.header().block_rows, 1) << "whatever dims.block_rows says";
  EXPECT_EQ(planned.plan.header().objective, 16548u);
}

TEST(PlannerQuota, case_B_is_feasible_at_once) {
  const Planned planned =
      plan_once(quota_config(8, 4, 1, 10'000), loads_of(4, {2, 2, 13, 3, 2, 2, 5, 3}));
  EXPECT_EQ(planned.loads, (std::vector<int32_t>{9, 9, 6, 8}));
  EXPECT_EQ(blocks_on(planned.plan, 2, 0), 5);
  EXPECT_EQ(blocks_on(planned.plan, 2, 2), 2);
}

TEST(PlannerQuota, case_D_steps_to_the_first_feasible_threshold_and_bisects) {
  const Planned planned = plan_once(quota_config(8, 8, 1, 10'000),
                                    loads_of(8, {8192, 4096, 2048, 1024, 512, 256, 128, 64}));
  EXPECT_EQ(planned.plan.header().max_blocks, 2160);
}

TEST(PlannerQuota, the_owner_keeps_a_row_of_every_expert) {
  // tau is 1 for six ranks, so all of rank 0's rows but one would leave if it kept none.
  const Planned planned = plan_once(quota_config(6, 6, 1, 0), loads_of(6, {6, 0, 0, 0, 0, 0}));
  EXPECT_EQ(blocks_on(planned.plan, 0, 0), 1);
  EXPECT_EQ(planned.plan.num_replicas(), 5);
}

TEST(PlannerQuota, the_least_blocks_of_a_copy_enter_neither_plan_nor_hash) {
  PlanConfig config = quota_config(4, 4, 1, 10'000);
  const uint64_t hash = config_hash(config);
  config.min_copy_blocks = 400;
  EXPECT_EQ(config_hash(config), hash);
  EXPECT_EQ(config_hash(make_planner(config)->config()), hash) << "what the C ABI hands out";
  EXPECT_EQ(plan_once(config, loads_of(4, {65536, 0, 0, 0})).plan.num_replicas(), 3);
}

TEST(PlannerQuota, a_replica_carries_the_lambda_that_it_costs) {
  PlanConfig config = row_config(PlannerKind::kQuota, 4, 4, 1);
  config.objective = Objective::kBackward;
  config.lambda_blocks = 4;
  const Planned planned = plan_once(config, loads_of(4, {160, 80, 80, 80}));
  EXPECT_EQ(planned.plan.header().objective, 103u);
  EXPECT_EQ(planned.loads, (std::vector<int32_t>{91, 103, 103, 103}));  // and 3 * 4 on rank 0
}

RC_GTEST_PROP(PlannerQuota, honours_the_least_rows_of_a_replica, ()) {
  const int32_t num_ranks = *rc::gen::inRange(1, 9);
  const int32_t num_experts = *rc::gen::inRange(1, 20);
  PlanConfig config =
      quota_config(num_experts, num_ranks, *rc::gen::inRange(0, 4), *rc::gen::inRange(0, 50'000));
  config.min_rows_per_replica = *rc::gen::inRange(1, 200);
  const auto totals =
      *rc::gen::container<std::vector<int64_t>>(num_experts, rc::gen::inRange<int64_t>(0, 3000));
  const LoadTable loads = loads_of(num_ranks, totals);
  const Planned planned = plan_once(config, loads);
  RC_ASSERT(check_plan(planned.plan, loads, config).empty());
  for (int32_t e = 0; e < num_experts; ++e) {
    for (const Instance& instance : planned.plan.instances_of(e)) {
      if (instance.slot >= 0) RC_ASSERT(instance.num_blocks >= config.min_rows_per_replica);
      if (instance.slot < 0 && totals[e] > 0) RC_ASSERT(instance.num_blocks >= 1);
    }
  }
  // Whatever it moves, it is no worse than moving nothing.
  const Planned fixed = plan_once(
      [&] {
        PlanConfig other = config;
        other.planner = PlannerKind::kFixed;
        other.dims.block_rows = 1;
        return other;
      }(),
      loads);
  RC_ASSERT(planned.plan.header().max_blocks <= fixed.plan.header().max_blocks);
}

// What the documentation says, step by step: the first feasible threshold of first, first + d, ...,
// bisected inside the last step, and fixed placement if that is no worse.
int64_t scanned_objective(const PlanConfig& config, const LoadTable& loads) {
  ProblemBuilder builder(config, 1);
  builder.measure(loads);
  builder.arrange(loads, {}, 0);
  const DomainProblem& problem = builder.domains()[0];
  SearchState state;
  state.attach(problem);
  const int64_t most = problem.max_fixed_finish();
  int64_t work = problem.total_blocks, speed = 0;
  for (const int64_t base : problem.base) work += base;
  for (const int64_t s : problem.speed) speed += s;
  const int64_t first =
      std::min(most, std::max(problem.tau, ceil_div<int64_t>(work * 1024, speed)));
  const int64_t step = std::max<int64_t>(1, first / 1000);
  int64_t feasible = first;
  while (!is_quota_feasible(feasible, state)) feasible = std::min(feasible + step, most);
  int64_t refused = std::max(first - 1, feasible - step);
  while (feasible - refused > 1) {
    const int64_t middle = refused + (feasible - refused) / 2;
    (is_quota_feasible(middle, state) ? feasible : refused) = middle;
  }
  is_quota_feasible(feasible, state);
  return std::min(most, max_finish(state));
}

RC_GTEST_PROP(PlannerQuota, skips_no_threshold_that_a_scan_would_take, ()) {
  const int32_t num_ranks = *rc::gen::inRange(2, 6);
  const int32_t num_experts = *rc::gen::inRange(num_ranks, 24);
  PlanConfig config = quota_config(num_experts, num_ranks, *rc::gen::inRange(1, 3), 0);
  config.owner_of = contiguous_owners(num_experts, num_ranks);
  for (int32_t r = 0; r < num_ranks; ++r) {
    config.speed.push_back(*rc::gen::element<uint16_t>(48, 100, 1024, 65535));
    config.base_blocks.push_back(*rc::gen::inRange(0, 2));
  }
  const auto totals =
      *rc::gen::container<std::vector<int64_t>>(num_experts, rc::gen::inRange<int64_t>(0, 40));
  const LoadTable loads = loads_of(num_ranks, totals);
  RC_PRE(loads.total_rows() > 0);
  RC_ASSERT(static_cast<int64_t>(plan_once(config, loads).plan.header().objective) ==
            scanned_objective(config, loads));
}

TEST(PlannerQuota, extreme_speeds_take_no_longer) {
  PlanConfig config = quota_config(128, 8, 1, 0);
  config.speed.assign(8, 65535);
  config.speed[3] = config.speed[5] = 1;
  const LoadTable loads = loads_of(8, std::vector<int64_t>(128, 1000));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(plan_once(config, loads).plan.header().objective, 13'315'072u);
  // Threshold by threshold it is a million searches.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
}  // namespace megaflux
