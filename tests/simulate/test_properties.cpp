// What holds for any loads, owners, planners and machines.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "simulate/planner_variant.h"
#include "simulate/step_simulator.h"

namespace megaflux::simulate {
namespace {

struct AnyStep {
  StepSetting setting;
  LoadTable loads;
};

AnyStep any_step() {
  const auto num_experts = *rc::gen::inRange<int32_t>(1, 33);
  const auto num_ranks = *rc::gen::inRange<int32_t>(1, 10);
  AnyStep step;
  PlanConfig& plan = step.setting.plan;
  plan.planner = (*rc::gen::elementOf(all_variants())).kind;
  plan.objective = *rc::gen::element(Objective::kForward, Objective::kBackward, Objective::kCost);
  plan.dims = {num_experts, num_ranks, *rc::gen::inRange<int32_t>(0, 4),
               *rc::gen::element(1, 32, 128)};
  plan.owner_of = *rc::gen::container<std::vector<int32_t>>(
      num_experts, rc::gen::inRange<int32_t>(0, num_ranks));
  step.setting.shape = LayerShape{.num_experts = num_experts,
                                  .topk = 1,
                                  .hidden = *rc::gen::inRange<int32_t>(1, 5000),
                                  .inter = *rc::gen::inRange<int32_t>(1, 3000)};
  plan.cost = make_cost_model(machine_model("h200"), *step.setting.shape, plan.dims.block_rows,
                              *rc::gen::element(CostScope::kForward, CostScope::kForwardBackward));
  const auto most = *rc::gen::element(1, 3, 1000, 100'000);
  step.loads = LoadTable(
      num_ranks, num_experts,
      *rc::gen::container<std::vector<int32_t>>(static_cast<size_t>(num_ranks) * num_experts,
                                                rc::gen::inRange<int32_t>(0, most)));
  return step;
}

int64_t sum_of(std::span<const int64_t> rows) {
  return std::accumulate(rows.begin(), rows.end(), int64_t{0});
}

RC_GTEST_PROP(StepSimulatorProperty, RowsAreConservedAndIdealsAreBounds, ()) {
  const AnyStep step = any_step();
  StepSimulator simulator(step.setting);
  const StepFigures& figures = simulator.simulate(step.loads);
  RC_ASSERT(figures.has_plan);
  RC_ASSERT(sum_of(simulator.load_rows()) == step.loads.total_rows());
  RC_ASSERT(sum_of(simulator.load_rows_fixed()) == step.loads.total_rows());
  RC_ASSERT(figures.imbalance >= 1 - 1e-9);
  RC_ASSERT(figures.imbalance <= step.loads.num_ranks() + 1e-9);
  RC_ASSERT(*figures.ideal_ns <= *figures.second_ideal_ns);
  RC_ASSERT(*figures.second_ideal_ns <= *figures.planned_ns);
  RC_ASSERT(*figures.second_ideal_ns <= *figures.fixed_ns);
  RC_ASSERT(*figures.remote_rows >= *figures.pair_rows);
  RC_ASSERT(*figures.remote_rows <= step.loads.total_rows());
  RC_ASSERT(figures.moved_rows <= step.loads.total_rows());
  RC_ASSERT(*figures.moved_bytes == figures.copies * step.setting.shape->expert_bytes());
}

RC_GTEST_PROP(StepSimulatorProperty, OursPredictsWhatThePlannerPredicted, ()) {
  AnyStep step = any_step();
  step.setting.plan.planner = *rc::gen::element(PlannerKind::kMegaflux, PlannerKind::kPaper);
  StepSimulator simulator(step.setting);
  const StepFigures& figures = simulator.simulate(step.loads);
  RC_ASSERT(figures.planned_ns == simulator.report().predicted_ns);
}

RC_GTEST_PROP(StepSimulatorProperty, FixedPlacementIsWhatFixedPlans, ()) {
  AnyStep step = any_step();
  step.setting.plan.planner = PlannerKind::kFixed;
  StepSimulator simulator(step.setting);
  const StepFigures& figures = simulator.simulate(step.loads);
  RC_ASSERT(figures.imbalance == figures.imbalance_fixed);
  RC_ASSERT(figures.planned_ns == figures.fixed_ns);
  RC_ASSERT(figures.remote_rows == figures.remote_rows_fixed);
  RC_ASSERT(figures.pair_rows == figures.pair_rows_fixed);
  RC_ASSERT(figures.peak_rows == figures.peak_rows_fixed);
  RC_ASSERT(figures.copies == 0);
  RC_ASSERT(figures.moved_rows == 0);
}

}  // namespace
}  // namespace megaflux::simulate
