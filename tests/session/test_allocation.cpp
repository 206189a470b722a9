// After its first step a session allocates nothing: forward, replay and backward, planning
// included.
#include <gtest/gtest.h>

#include "allocation/counted_allocation.h"
#include "session/step_rig.h"

namespace megaflux {
namespace {

void expect_no_allocation(PlannerKind planner) {
  const StepData data(case_named("eight_ranks"), 71);
  SessionConfig config = session_config(data);
  config.plan.planner = planner;
  // oneDNN allocates inside some calls; the layer itself is what is asked here.
  config.gemm = GemmBackend::kPlainLoops;
  StepRig rig(data, config);
  const auto step = [&](GradientMode mode) {
    ForwardContext first = rig.forward();
    ForwardContext second = rig.replay(first);
    const BackwardCall call = rig.backward_call({}, mode);
    rig.session().backward(second, call, rig.report);
    first.release();
  };
  for (const GradientMode mode : {GradientMode::kNewFp32, GradientMode::kAddToMain}) {
    step(mode);
    const int64_t before = test::num_allocations();
    ForwardContext first = rig.forward();
    ForwardContext second = rig.replay(first);
    const int64_t after_forward = test::num_allocations();
    const BackwardCall call = rig.backward_call({}, mode);
    const int64_t before_backward = test::num_allocations();
    rig.session().backward(second, call, rig.report);
    EXPECT_EQ(after_forward - before, 0) << planner_name(planner);
    EXPECT_EQ(test::num_allocations() - before_backward, 0) << planner_name(planner);
  }
}

// The first step is one token on one rank; the next one fills T_max tokens on every rank.
TEST(Allocation, IC_34_NoneWhenAStepGrows) {
  LayerCase c = case_named("eight_ranks");
  const StepData large(c, 72);
  c.tokens = {1, 0, 0, 0, 0, 0, 0, 0};
  const StepData small(c, 73);
  SessionConfig config = session_config(large);
  config.gemm = GemmBackend::kPlainLoops;
  StepRig rig(large, config);
  const std::vector<const void*> x_small(8, small.x[0].bytes.data());
  std::vector<std::byte> y_small(small.x[0].bytes.size());
  const std::vector<void*> y(8, y_small.data());
  {
    ForwardContext first =
        rig.session().forward({.routing = small.routing, .x = x_small, .y = y}, rig.report);
    BackwardCall call = rig.backward_call({}, GradientMode::kNewFp32);
    rig.session().backward(first, call, rig.report);
  }
  const int64_t before = test::num_allocations();
  ForwardContext context = rig.forward();
  EXPECT_EQ(test::num_allocations() - before, 0);
  const BackwardCall call = rig.backward_call({}, GradientMode::kNewFp32);
  const int64_t before_backward = test::num_allocations();
  rig.session().backward(context, call, rig.report);
  EXPECT_EQ(test::num_allocations() - before_backward, 0);
}

TEST(Allocation, NoneAfterTheFirstStep) {
  expect_no_allocation(PlannerKind::kFixed);
  expect_no_allocation(PlannerKind::kMegaflux);
  expect_no_allocation(PlannerKind::kQuota);
}

}  // namespace
}  // namespace megaflux
