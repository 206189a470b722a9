// What every rival promises, for any loads, owners, domains, masks and slots.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <vector>

#include "baselines/baseline_fixture.h"
#include "megaflux/base/rng.h"
#include "megaflux/moe/owner_table.h"
#include "plan/any_plan.h"

namespace megaflux {
namespace {

constexpr PlannerKind kBaselines[] = {
    PlannerKind::kUltraep, PlannerKind::kEplb,   PlannerKind::kLplb,     PlannerKind::kLlep,
    PlannerKind::kEcho,    PlannerKind::kMoonep, PlannerKind::kBroadcast};

// A random configuration and loads for it (the plan of the case is not used).
PlanCase any_case(Rng& rng, PlannerKind kind) {
  const auto below = [&rng](uint32_t bound) { return static_cast<int32_t>(rng.below(bound)); };
  PlanCase any = any_plan_case(rng);
  PlanConfig& config = any.config;
  config.planner = kind;
  config.objective = static_cast<Objective>(below(3));
  config.cost = CostModel{.block_ps = 1 + rng.below(1'000'000),
                          .weight_bytes = rng.below(1'000'000),
                          .link_bytes_per_us = 1 + rng.below(10'000)};
  if (below(2) == 0 && config.objective != Objective::kCost) config.cost.reset();
  for (int32_t r = 0; below(3) == 0 && r < config.dims.num_ranks; ++r) {
    config.speed.assign(config.dims.num_ranks, static_cast<uint16_t>(512 + rng.below(1024)));
    config.base_blocks.assign(config.dims.num_ranks, below(20));
  }
  BaselineConfig& knobs = config.baselines;
  if (below(2) == 0) {
    for (int32_t e = 0; e < config.dims.num_experts; ++e) knobs.history.push_back(below(900));
  }
  knobs.ultraep.owner_may_be_empty = below(2) == 0;
  knobs.ultraep.min_rows_per_replica = 1 + below(60);
  knobs.eplb.selection = static_cast<CopySelection>(below(3));
  knobs.lplb.solver = static_cast<LplbSolver>(below(2));
  knobs.llep = {
      .alpha_ppm = 500'000 + below(1'000'000), .min_rows = 1 + below(40), .gate_ppm = 1'000'000};
  knobs.echo.mode = static_cast<EchoMode>(below(2));
  if (below(2) == 0) knobs.echo.reclaim_ppm = below(200'000);
  knobs.broadcast.gflops = 1 + below(3000);
  return any;
}

int32_t most_replicas(const Plan& plan) {
  std::vector<int32_t> used(plan.dims().num_ranks, 0);
  int32_t most = 0;
  for (int32_t e = 0; e < plan.dims().num_experts; ++e) {
    for (const Instance& instance : plan.instances_of(e)) {
      if (instance.slot >= 0) most = std::max(most, ++used[instance.rank]);
    }
  }
  return most;
}

void check_promises(PlannerKind kind, uint64_t seed) {
  Rng rng(seed);
  const PlanCase any = any_case(rng, kind);
  const auto planner = make_planner(any.config);
  Plan plan, again;
  PlanReport report;
  planner->plan(any.loads, any.resident, plan, report);
  RC_ASSERT(report.has_plan());
  const PlanConfig planned = config_as_planned(any.config, plan);
  const size_t wide = plan.slot_expert().size();
  std::vector<int32_t> resident;
  if (!any.resident.empty()) {
    const size_t s = any.config.dims.replica_slots, more = planned.dims.replica_slots;
    resident.assign(wide, -1);
    for (size_t i = 0; i < any.resident.size(); ++i)
      resident[i / s * more + i % s] = any.resident[i];
  }
  RC_ASSERT(check_plan(plan, any.loads, planned, resident).empty());
  RC_ASSERT(plan.header().block_rows == 1);
  planner->plan(any.loads, any.resident, again, report);
  RC_ASSERT(again == plan);
  make_planner(any.config)->plan(any.loads, any.resident, again, report);
  RC_ASSERT(again == plan);

  const int32_t slots = any.config.dims.replica_slots;
  RC_ASSERT(report.slots_needed >= most_replicas(plan));
  RC_ASSERT(plan.dims().replica_slots == std::max(slots, report.slots_needed));
  RC_ASSERT(report.gate == GateDecision::kNotAsked);
  RC_ASSERT(report.predicted_ns.has_value() == any.config.cost.has_value());
  if (any.config.objective == Objective::kCost) {
    RC_ASSERT(plan.header().objective == *report.predicted_ns);
  }
  const bool moves_owners = kind == PlannerKind::kEplb || kind == PlannerKind::kLplb;
  if (!moves_owners) {
    RC_ASSERT(report.slots_needed == most_replicas(plan));
    RC_ASSERT(report.moved_owners == 0);
  }
  if (kind == PlannerKind::kUltraep || kind == PlannerKind::kEcho || kind == PlannerKind::kLplb) {
    RC_ASSERT(report.slots_needed <= slots);
  }
}

class BaselineAnyInput : public testing::TestWithParam<PlannerKind> {};

TEST_P(BaselineAnyInput, keeps_its_promises) {
  EXPECT_TRUE(rc::check(std::string(planner_name(GetParam())),
                        [] { check_promises(GetParam(), *rc::gen::arbitrary<uint64_t>()); }));
}

TEST_P(BaselineAnyInput, orphans_mean_no_plan) {
  PlanConfig config = row_config(GetParam(), 4, 4, 1);
  config.active = {1, 0, 1, 1};
  const Planned planned = plan_once(config, loads_of(4, {9, 8, 7, 6}));
  EXPECT_EQ(planned.report.orphans, std::vector<int32_t>{1});
  EXPECT_TRUE(planned.plan.empty());
}

TEST_P(BaselineAnyInput, IC_44_a_layer_without_rows_has_no_replicas) {
  const Planned planned =
      plan_once(row_config(GetParam(), 6, 3, 2), loads_of(3, {0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(planned.plan.num_replicas(), 0);
  EXPECT_EQ(planned.plan.header().max_blocks, 0);
}

TEST_P(BaselineAnyInput, IC_20_owners_need_not_divide_evenly) {
  for (const auto& [num_experts, num_ranks] : {std::pair{10, 4}, {160, 6}, {256, 6}, {7, 8}}) {
    std::vector<int64_t> totals;
    for (int32_t e = 0; e < num_experts; ++e) totals.push_back(1 + (e * e * 31) % 977);
    run_baseline(baseline_config(GetParam(), totals, num_ranks, 2), totals);
  }
}

TEST_P(BaselineAnyInput, IC_71_nothing_leaves_its_domain) {
  PlanConfig config = row_config(GetParam(), 8, 8, 2);
  config.domain_of = {0, 0, 0, 0, 1, 1, 1, 1};
  const std::vector<int64_t> totals = {900, 700, 40, 10, 0, 0, 0, 0};
  const Planned planned = run_baseline(config, totals);
  EXPECT_EQ(std::vector<int32_t>(planned.loads.begin() + 4, planned.loads.end()),
            std::vector<int32_t>(4, 0));
}

INSTANTIATE_TEST_SUITE_P(All, BaselineAnyInput, testing::ValuesIn(kBaselines),
                         [](const auto& kind) { return std::string(planner_name(kind.param)); });

}  // namespace
}  // namespace megaflux
