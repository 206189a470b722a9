// Every injected fault is caught by a check that a run makes anyway: the reference, the comparison
// with fixed placement, the moved bytes, or the deadline. Without a fault all of them hold.
#include <gtest/gtest.h>

#include "session/step_rig.h"

namespace megaflux {
namespace {

// Enough rows that replicas carry real work and that roundings differ somewhere.
LayerCase fault_case() {
  LayerCase c;
  c.name = "fault";
  c.shape = {.num_experts = 16, .topk = 6, .hidden = 64, .inter = 16};
  c.tokens = {300, 300, 300, 300};
  c.route = RouteKind::kSkewed;
  c.replica_slots = 2;
  c.block_rows = 32;
  return c;
}

struct Verdict {
  bool is_forward_right = false;
  bool is_backward_right = false;
  bool is_bitwise_equal = false;  // y, dX and dp, with fixed placement
  bool are_bytes_right = false;
};

Verdict run_with(Fault fault) {
  StepData data(fault_case(), 61);
  SessionConfig config = session_config(data);
  config.is_memory_poisoned = fault != Fault::kStaleSlot;
  StepRig rig(data, config);
  // A step with other weights, so that slots hold something old.
  rig.step();
  data.redraw_weights(1062);
  rig.session().weights_changed(0);

  ForwardContext context = rig.forward(0, nullptr, fault);
  const Plan plan = context.state().plan;
  EXPECT_GT(plan.num_replicas(), 0);
  const LayerShape& shape = data.shape();
  int64_t weights = rig.report.total(Traffic::kWeights);
  BackwardCall call;
  call.fault = fault;
  rig.backward(context, call);
  const int64_t gradients = rig.report.total(Traffic::kGradients);

  config.plan.planner = PlannerKind::kFixed;
  StepRig fixed(data, config);
  const Errors errors = errors_of(data, rig.out, reference_output(data.problem(), plan));
  return {.is_forward_right = errors.y <= output_tolerance(shape),
          .is_backward_right = errors.worst_gradient() <= gradient_tolerance(shape),
          .is_bitwise_equal = token_difference(fixed.step(), rig.out).empty(),
          .are_bytes_right = weights == plan.header().num_copies * shape.expert_bytes() &&
                             gradients == plan.num_replicas() * shape.expert_gradient_bytes()};
}

TEST(Faults, NoneIsFound) {
  const Verdict verdict = run_with(Fault::kNone);
  EXPECT_TRUE(verdict.is_forward_right);
  EXPECT_TRUE(verdict.is_backward_right);
  EXPECT_TRUE(verdict.is_bitwise_equal);
  EXPECT_TRUE(verdict.are_bytes_right);
}

TEST(Faults, StaleSlot) {
  const Verdict verdict = run_with(Fault::kStaleSlot);
  EXPECT_FALSE(verdict.is_forward_right);
  EXPECT_FALSE(verdict.is_bitwise_equal);
  EXPECT_FALSE(verdict.are_bytes_right);
}

// Replicas that are kept across calls are not kept from a launch that went wrong on purpose.
TEST(Faults, SlotsOfAFaultyLaunchAreFilledAgain) {
  StepData data(fault_case(), 62);
  SessionConfig config = session_config(data);
  config.is_memory_poisoned = false;
  config.keeps_replicas = true;
  StepRig rig(data, config);
  rig.step();
  data.redraw_weights(1063);
  rig.session().weights_changed(0);
  rig.forward(0, nullptr, Fault::kStaleSlot).release();
  ForwardContext context = rig.forward();
  EXPECT_GT(rig.report.total(Traffic::kWeights), 0);
  const Plan plan = context.state().plan;
  rig.backward(context);
  const Errors errors = errors_of(data, rig.out, reference_output(data.problem(), plan));
  EXPECT_LE(errors.y, output_tolerance(data.shape()));
}

TEST(Faults, WrongOwner) {
  const Verdict verdict = run_with(Fault::kWrongOwner);
  EXPECT_FALSE(verdict.is_forward_right);
  EXPECT_FALSE(verdict.is_bitwise_equal);
}

TEST(Faults, DropRow) {
  const Verdict verdict = run_with(Fault::kDropRow);
  EXPECT_FALSE(verdict.is_forward_right);
  EXPECT_FALSE(verdict.is_bitwise_equal);
}

TEST(Faults, SwapKOrderChangesBitsAndNothingElse) {
  const Verdict verdict = run_with(Fault::kSwapKOrder);
  EXPECT_FALSE(verdict.is_bitwise_equal);
  EXPECT_TRUE(verdict.is_forward_right);
  EXPECT_TRUE(verdict.are_bytes_right);
}

TEST(Faults, SkipReplicaGradient) {
  const Verdict verdict = run_with(Fault::kSkipReplicaGradient);
  EXPECT_TRUE(verdict.is_forward_right);
  EXPECT_TRUE(verdict.is_bitwise_equal);
  EXPECT_FALSE(verdict.is_backward_right);
  EXPECT_FALSE(verdict.are_bytes_right);
}

}  // namespace
}  // namespace megaflux
