// Objectives besides the largest load: lambda, slack, predicted time, and the gates.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plan/planner_fixture.h"

namespace megaflux {
namespace {

// Eight ranks, eight experts, blocks of 128 rows; rank 0 has `hot` blocks, the others 100.
LoadTable hot_loads(int64_t hot) {
  std::vector<int64_t> totals(8, 100 * 128);
  totals[0] = hot * 128;
  return loads_of(8, totals);
}

// A block takes 1 us and a copy 10 us of one rank's link.
PlanConfig cost_config() {
  PlanConfig config;
  config.objective = Objective::kCost;
  config.dims = {8, 8, 2, 128};
  config.cost = CostModel{.block_ps = 1'000'000,
                          .weight_bytes = 1'000'000,
                          .link_bytes_per_us = 100'000,
                          .plan_ns = 20'000,
                          .pre_gate_ns = 2'000};
  return config;
}

TEST(PlannerGate, pre_gate_refuses_what_cannot_pay_for_planning) {
  // 115 - tau(102) = 13 blocks = 13 us to gain, planning alone takes 20.
  const Planned planned = plan_once(cost_config(), hot_loads(115));
  EXPECT_EQ(planned.report.gate, GateDecision::kPreGate);
  EXPECT_EQ(planned.plan.num_replicas(), 0);
  EXPECT_EQ(planned.plan.header().flags, kPlanGateRefused);
  EXPECT_EQ(planned.report.predicted_ns, 115'000u + 2'000u);
  EXPECT_EQ(planned.plan.header().objective, 117'000u);
}

TEST(PlannerGate, the_pre_gate_prices_what_a_search_adds_to_a_head) {
  // 120 - tau(103) = 17 blocks = 17 us; a search takes 20, of which 2 are spent in any case.
  EXPECT_EQ(plan_once(cost_config(), hot_loads(120)).report.gate, GateDecision::kPreGate);
  PlanConfig config = cost_config();
  config.cost->pre_gate_ns = 4'000;
  EXPECT_EQ(plan_once(config, hot_loads(120)).report.gate, GateDecision::kReplicate);
  config.cost->pre_gate_ns = 40'000;  // slower than a search: nothing to lose
  EXPECT_EQ(plan_once(config, hot_loads(102)).report.gate, GateDecision::kReplicate);
}

TEST(PlannerGate, replicates_when_the_gain_is_large) {
  const Planned planned = plan_once(cost_config(), hot_loads(300));
  EXPECT_EQ(planned.report.gate, GateDecision::kReplicate);
  EXPECT_GT(planned.plan.num_replicas(), 0);
  EXPECT_EQ(planned.plan.header().flags, 0);
  EXPECT_LT(*planned.report.predicted_ns, *planned.report.predicted_fixed_ns);
  EXPECT_EQ(planned.report.predicted_fixed_ns, 300'000u + 20'000u);
}

TEST(PlannerGate, rounds_that_balance_saves_are_worth_a_search) {
  PlanConfig config = cost_config();
  EXPECT_EQ(plan_once(config, hot_loads(115)).report.gate, GateDecision::kPreGate);
  config.cost->pool_blocks = 105;  // rank 0 fills its pool twice, under balance nobody does
  config.cost->round_ns = 50'000;
  const Planned planned = plan_once(config, hot_loads(115));
  EXPECT_EQ(planned.report.gate, GateDecision::kReplicate);
  EXPECT_LT(planned.report.predicted_ns, planned.report.predicted_fixed_ns);
  config.cost->pool_blocks = 60;  // then too all fill it twice
  EXPECT_EQ(plan_once(config, hot_loads(115)).report.gate, GateDecision::kPreGate);
}

TEST(PlannerGate, a_link_too_slow_for_any_copy_keeps_fixed_placement) {
  PlanConfig config = cost_config();
  config.cost->plan_ns = 0;
  config.cost->link_bytes_per_us = 1'000;  // 1 ms a copy; owned blocks hide 0.3 ms of it at most
  const Planned planned = plan_once(config, hot_loads(300));
  EXPECT_EQ(planned.report.gate, GateDecision::kPreGate);
  config.cost->link_bytes_per_us = 3'500;  // 286 us: hidden on rank 0, but not where copies go
  const Planned searched = plan_once(config, hot_loads(300));
  EXPECT_EQ(searched.report.gate, GateDecision::kFixed);
  EXPECT_EQ(searched.plan.num_replicas(), 0);
  EXPECT_EQ(searched.plan.header().flags, kPlanGateRefused);
  EXPECT_EQ(searched.plan.header().search_id, -1);
}

TEST(PlannerGate, copies_cost_nothing_where_the_expert_is_resident) {
  PlanConfig config = cost_config();
  config.cost->plan_ns = 0;
  config.cost->link_bytes_per_us = 3'500;
  std::vector<int32_t> resident(16, -1);
  for (int32_t r = 1; r < 8; ++r) resident[2 * r] = 0;
  const Planned planned = plan_once(config, hot_loads(300), resident);
  EXPECT_EQ(planned.report.gate, GateDecision::kReplicate);
  EXPECT_GT(planned.plan.num_replicas(), 0);
  EXPECT_EQ(planned.plan.header().num_copies, 0);
  // Nor may the pre-gate price a copy that nobody needs: no owned block hides one of 1 ms.
  config.cost->link_bytes_per_us = 1'000;
  EXPECT_EQ(plan_once(config, hot_loads(300)).report.gate, GateDecision::kPreGate);
  EXPECT_EQ(plan_once(config, hot_loads(300), resident).report.gate, GateDecision::kReplicate);
}

TEST(PlannerGate, ranks_of_unlike_speed_are_searched_before_a_gate_refuses) {
  // A slow rank's owned blocks cover more time than their number says.
  PlanConfig config = cost_config();
  config.cost->plan_ns = 0;
  config.cost->link_bytes_per_us = 1'000;
  EXPECT_EQ(plan_once(config, hot_loads(300)).report.gate, GateDecision::kPreGate);
  config.speed.assign(8, 1024);
  config.speed[7] = 512;
  const Planned planned = plan_once(config, hot_loads(300));
  EXPECT_EQ(planned.report.gate, GateDecision::kFixed);
  EXPECT_LE(*planned.report.predicted_ns, *planned.report.predicted_fixed_ns);
}

TEST(PlannerGate, few_rows_are_not_planned) {
  PlanConfig config = cost_config();
  config.min_forward_rows = 128'001;
  EXPECT_EQ(plan_once(config, hot_loads(300)).report.gate, GateDecision::kFewRows);
  config.min_forward_rows = 128'000;
  EXPECT_EQ(plan_once(config, hot_loads(300)).report.gate, GateDecision::kReplicate);
  config.objective = Objective::kForward;
  config.min_forward_rows = 128'001;
  const Planned planned = plan_once(config, hot_loads(300));
  EXPECT_EQ(planned.report.gate, GateDecision::kFewRows);
  EXPECT_EQ(planned.plan.header().objective, 300u);
}

TEST(PlannerGate, every_objective_predicts_with_a_cost_model_and_none_without) {
  for (const PlannerKind kind :
       {PlannerKind::kMegaflux, PlannerKind::kPaper, PlannerKind::kQuota, PlannerKind::kFixed}) {
    for (const Objective objective : {Objective::kForward, Objective::kBackward}) {
      PlanConfig config = cost_config();
      config.planner = kind;
      config.objective = objective;
      const Planned planned = plan_once(config, hot_loads(300));
      EXPECT_EQ(planned.report.gate, GateDecision::kNotAsked);
      ASSERT_TRUE(planned.report.predicted_ns && planned.report.predicted_fixed_ns);
      const uint64_t plan_ns = kind == PlannerKind::kFixed ? 0 : 20'000;
      EXPECT_EQ(planned.report.predicted_fixed_ns, 300'000 + plan_ns) << planner_name(kind);
      config.cost.reset();
      EXPECT_FALSE(plan_once(config, hot_loads(300)).report.predicted_ns);
    }
  }
}

TEST(PlannerGate, lambda_decides_how_many_replicas_pay) {
  // Rank 0 has 170 blocks, tau is 109: a replica must take more than lambda off rank 0.
  PlanConfig config = cost_config();
  config.objective = Objective::kBackward;
  config.lambda_blocks = 0;
  const Planned free_copies = plan_once(config, hot_loads(170));
  EXPECT_EQ(free_copies.plan.header().objective, 109u);
  EXPECT_EQ(free_copies.plan.num_replicas(), 7);
  config.lambda_blocks = 2;
  const Planned some = plan_once(config, hot_loads(170));
  EXPECT_GT(some.plan.header().objective, 109u);
  EXPECT_LT(some.plan.header().objective, 130u);
  config.lambda_blocks = 70;
  const Planned none = plan_once(config, hot_loads(170));
  EXPECT_EQ(none.plan.header().objective, 170u);
  EXPECT_EQ(none.plan.num_replicas(), 0);
}

TEST(PlannerGate, slack_trades_the_maximum_for_copies) {
  PlanConfig config;
  config.dims = {8, 8, 2, 1};
  const LoadTable loads = loads_of(8, {1000, 1010, 1004, 990, 996, 1003, 997, 1000});
  const Planned exact = plan_once(config, loads);
  EXPECT_EQ(exact.plan.header().max_blocks, 1000);
  EXPECT_GE(exact.plan.num_replicas(), 3);
  config.slack_ppm = 5'000;  // 1005 is good enough: only rank 1 is above
  const Planned relaxed = plan_once(config, loads);
  EXPECT_LE(relaxed.plan.header().max_blocks, 1005);
  EXPECT_EQ(relaxed.plan.num_replicas(), 1);
  config.slack_ppm = 10'000;
  EXPECT_EQ(plan_once(config, loads).plan.num_replicas(), 0);
}

TEST(PlannerGate, residents_are_preferred_at_equal_balance) {
  PlanConfig config;
  config.dims = {4, 4, 1, 1};
  const LoadTable loads = loads_of(4, {70, 10, 10, 10});  // tau 25: 15 blocks to each other rank
  std::vector<int32_t> resident = {-1, 0, 2, -1};
  const Planned planned = plan_once(config, loads, resident);
  EXPECT_EQ(planned.loads, (std::vector<int32_t>(4, 25)));
  EXPECT_EQ(planned.plan.num_replicas(), 3);
  EXPECT_EQ(planned.plan.header().num_copies, 2) << "rank 1 holds expert 0 already";
}

TEST(PlannerGate, base_work_and_speeds_shift_the_load) {
  PlanConfig config;
  config.dims = {4, 4, 2, 1};
  config.base_blocks = {0, 0, 0, 40};
  config.speed = {1024, 512, 1024, 1024};
  const LoadTable loads = loads_of(4, {100, 100, 100, 100});
  const Planned planned = plan_once(config, loads);
  // Least T with T + T/2 + T + (T - 40) >= 400: 126 gives 126 + 63 + 126 + 86 = 401.
  EXPECT_EQ(planned.report.tau, 126);
  EXPECT_EQ(planned.plan.header().objective, 126u);
  EXPECT_LE(planned.loads[1], 63);
  EXPECT_LE(planned.loads[3], 86);
}

}  // namespace
}  // namespace megaflux
