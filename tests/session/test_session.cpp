// Sessions: planned steps against the reference, contexts, replay, layers that share slots,
// residency.
#include "megaflux/session/session.h"

#include <gtest/gtest.h>

#include "session/step_rig.h"

namespace megaflux {
namespace {

class SessionCases : public testing::TestWithParam<LayerCase> {};

TEST_P(SessionCases, PlannedStepMatchesTheReference) {
  const StepData data(GetParam(), 41);
  StepRig rig(data);
  ForwardContext context = rig.forward();
  const Plan plan = context.state().plan;
  rig.backward(context);
  const Errors errors = errors_of(data, rig.out, reference_output(data.problem(), plan));
  EXPECT_LE(errors.y, output_tolerance(data.shape()));
  EXPECT_LE(errors.worst_gradient(), gradient_tolerance(data.shape()));
}

TEST_P(SessionCases, EveryPlannerGivesTheSameTokenBits) {
  const StepData data(GetParam(), 42);
  SessionConfig config = session_config(data);
  config.plan.planner = PlannerKind::kFixed;
  const StepOutput fixed = StepRig(data, config).step();
  for (const PlannerKind planner :
       {PlannerKind::kMegaflux, PlannerKind::kPaper, PlannerKind::kQuota}) {
    config.plan.planner = planner;
    StepRig rig(data, config);
    EXPECT_EQ(token_difference(fixed, rig.step()), "") << planner_name(planner);
    ForwardContext context = rig.forward();
    rig.backward(context, {.plans_afresh = true});
    EXPECT_EQ(token_difference(fixed, rig.out), "") << planner_name(planner) << ", fresh backward";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SessionCases, testing::ValuesIn(case_table()),
                         [](const auto& named) { return named.param.name; });

TEST(Session, IC_27_ReplayTakesTheSavedPlanAndNeverPlans) {
  const StepData data(case_named("eight_ranks"), 43);
  StepRig rig(data);
  ForwardContext first = rig.forward();
  const std::vector<TypedVector> y = rig.out.y;
  ForwardContext second = rig.replay(first);
  EXPECT_EQ(rig.report.head_ns, 0);
  EXPECT_EQ(second.state().plan, first.state().plan);
  for (size_t rank = 0; rank < y.size(); ++rank) EXPECT_EQ(rig.out.y[rank].bytes, y[rank].bytes);
  rig.backward(second);
  const StepOutput replayed = rig.out;
  rig.backward(first);
  EXPECT_EQ(token_difference(replayed, rig.out) + gradient_difference(replayed, rig.out), "");
}

TEST(Session, ContextServesExactlyOneBackward) {
  const StepData data(case_named("two_ranks_bf16"), 44);
  StepRig rig(data);
  ForwardContext context = rig.forward();
  rig.backward(context);
  EXPECT_THROW(rig.backward(context), Error);
  EXPECT_THROW((void)rig.replay(context), Error);
  // A refused argument leaves the context as it is.
  ForwardContext other = rig.forward();
  BackwardCall call = rig.backward_call({}, GradientMode::kNewFp32);
  call.dy = {};
  EXPECT_THROW(rig.session().backward(other, call, rig.report), Error);
  EXPECT_FALSE(other.is_consumed());
  rig.backward(other);
}

TEST(Session, ContextsInFlightAreLimitedAndNamed) {
  const StepData data(case_named("two_ranks_bf16"), 45);
  SessionConfig config = session_config(data);
  config.max_contexts = 2;
  StepRig rig(data, config);
  ForwardContext a = rig.forward();
  ForwardContext b = rig.forward();
  EXPECT_THROW((void)rig.forward(), Error);
  a.release();
  EXPECT_NO_THROW((void)rig.forward());
}

TEST(Session, ContextOfOldWeightsIsRefused) {
  const StepData data(case_named("two_ranks_bf16"), 46);
  StepRig rig(data);
  ForwardContext context = rig.forward();
  rig.session().weights_changed(0);
  EXPECT_THROW(rig.backward(context), Error);
}

// Equal in layer, ranks, tokens and weight version: only the owner tells them apart.
TEST(Session, ContextOfAnotherSessionIsRefused) {
  const StepData data(case_named("two_ranks_bf16"), 46);
  ForwardContext foreign;
  {
    StepRig ended(data);
    foreign = ended.forward();
  }
  StepRig rig(data);
  const StepOutput expected = rig.step();
  EXPECT_THROW(rig.backward(foreign), Error);
  EXPECT_THROW((void)rig.replay(foreign), Error);
  EXPECT_FALSE(foreign.is_consumed());
  EXPECT_EQ(token_difference(expected, rig.step()), "") << "the session goes on after a refusal";
}

// Peers pull x and dY for as long as a launch lasts, so outputs cannot lie on them.
TEST(Session, OutputsOnInputsAreRefused) {
  const StepData data(case_named("two_ranks_bf16"), 46);
  StepRig rig(data);
  std::vector<void*> x;
  std::vector<const void*> x_read;
  for (const TypedVector& rank : data.x) {
    x.push_back(const_cast<std::byte*>(rank.bytes.data()));
    x_read.push_back(rank.bytes.data());
  }
  EXPECT_THROW(
      (void)rig.session().forward({.routing = data.routing, .x = x_read, .y = x}, rig.report),
      Error);
  ForwardContext context = rig.forward();
  EXPECT_THROW((void)rig.session().replay(context, x_read, x, rig.report), Error);
  BackwardCall call = rig.backward_call({}, GradientMode::kNewFp32);
  call.dx = x;
  EXPECT_THROW(rig.session().backward(context, call, rig.report), Error);
  call = rig.backward_call({}, GradientMode::kNewFp32);
  const std::vector<const void*> dx(call.dx.begin(), call.dx.end());
  call.dy = dx;
  EXPECT_THROW(rig.session().backward(context, call, rig.report), Error);
  // A few rows in common are enough.
  const int64_t row_bytes = data.shape().hidden * dtype_bytes(data.shape().dtype);
  call = rig.backward_call({}, GradientMode::kNewFp32);
  std::vector<void*> shifted(call.dx.begin(), call.dx.end());
  shifted[0] = static_cast<std::byte*>(x[0]) + 3 * row_bytes;
  call.dx = shifted;
  EXPECT_THROW(rig.session().backward(context, call, rig.report), Error);
  // So is an input of another rank.
  std::vector<void*> crossed(x.rbegin(), x.rend());
  call.dx = crossed;
  EXPECT_THROW(rig.session().backward(context, call, rig.report), Error);
  EXPECT_THROW((void)rig.session().replay(context, x_read, crossed, rig.report), Error);
  EXPECT_THROW(
      (void)rig.session().forward({.routing = data.routing, .x = x_read, .y = crossed}, rig.report),
      Error);
  EXPECT_FALSE(context.is_consumed());
  rig.backward(context);
}

// What a head leaves in the heap is of the last step; a replay of an earlier one builds its own.
TEST(Session, ReplayAfterAnotherStep) {
  const StepData data(case_named("two_ranks_bf16"), 51);
  const StepData other(case_named("two_ranks_bf16"), 52);
  StepRig rig(data);
  const StepOutput expected = rig.step();
  const ForwardContext saved = rig.forward();
  std::vector<TypedVector> other_y = rig.out.y;
  std::vector<const void*> x;
  std::vector<void*> y;
  for (size_t rank = 0; rank < other_y.size(); ++rank) {
    x.push_back(other.x[rank].bytes.data());
    y.push_back(other_y[rank].bytes.data());
  }
  rig.session().forward({.routing = other.routing, .x = x, .y = y}, rig.report).release();
  ForwardContext context = rig.replay(saved);
  rig.backward(context);
  EXPECT_EQ(token_difference(expected, rig.out) + gradient_difference(expected, rig.out), "");
}

// The weights of a layer move to other memory and the old memory is gone: the new pointers are
// registered and used, and a context of the old ones is refused.
TEST(Session, IC_53_WeightsThatMovedAreRegisteredAgain) {
  StepData data(case_named("two_ranks_bf16"), 47);
  SessionConfig config = session_config(data);
  config.keeps_replicas = true;
  StepRig rig(data, config);
  const StepOutput expected = rig.step();
  ForwardContext old = rig.forward();
  std::vector<TypedVector> w1(data.w1), w2(data.w2);
  for (int32_t rank = 0; rank < data.num_ranks(); ++rank) {
    OwnedWeights moved = data.owned(rank);
    moved.w1 = w1[rank].bytes.data();
    moved.w2 = w2[rank].bytes.data();
    rig.session().set_weights(0, rank, moved);
    data.w1[rank].poison();
    data.w2[rank].poison();
  }
  EXPECT_THROW(rig.backward(old), Error);
  old.release();
  EXPECT_EQ(token_difference(expected, rig.step()), "");
}

// IC_23: layers share slots, pools and packs; each result is that of a session of its own.
TEST(Session, IC_23_LayersShareSlots) {
  const StepData first(case_named("one_hot"), 47);
  const StepData second(case_named("one_hot"), 48);
  StepRig rig(first, 2);
  for (int32_t rank = 0; rank < second.num_ranks(); ++rank) {
    rig.session().set_weights(1, rank, second.owned(rank));
  }
  rig.session().group().set_delay_fuzz(3);
  ForwardContext a = rig.forward(0);
  const std::vector<TypedVector> y0 = rig.out.y;
  ForwardContext b = rig.forward(1);
  const std::vector<TypedVector> y1 = rig.out.y;
  rig.backward(b);
  rig.backward(a);
  StepRig alone(first);
  const StepOutput expected = alone.step();
  for (size_t rank = 0; rank < y0.size(); ++rank) {
    EXPECT_EQ(y0[rank].bytes, expected.y[rank].bytes);
    EXPECT_NE(y1[rank].bytes, y0[rank].bytes) << "other weights must give other results";
  }
  StepOutput got = rig.out;
  got.y = expected.y;
  EXPECT_EQ(token_difference(expected, got) + gradient_difference(expected, got), "");
}

TEST(Session, KeptReplicasMoveNothingUntilWeightsChange) {
  StepData data(case_named("one_hot"), 49);
  SessionConfig config = session_config(data);
  config.keeps_replicas = true;
  StepRig rig(data, config);
  const StepOutput first = rig.step();
  EXPECT_EQ(rig.report.total(Traffic::kWeights), 0) << "the backward finds the forward's replicas";
  const StepOutput second = rig.step();
  EXPECT_EQ(rig.report.total(Traffic::kWeights), 0);
  EXPECT_EQ(token_difference(first, second), "");
  data.redraw_weights(1234);
  rig.session().weights_changed(0);
  ForwardContext context = rig.forward();
  EXPECT_GT(rig.report.total(Traffic::kWeights), 0);
  const Plan plan = context.state().plan;
  rig.backward(context);
  const Errors errors = errors_of(data, rig.out, reference_output(data.problem(), plan));
  EXPECT_LE(errors.y, output_tolerance(data.shape())) << "a stale replica was used";
}

TEST(Session, MovedBytesAreWhatThePlanImplies) {
  const StepData data(case_named("eight_ranks"), 50);
  StepRig rig(data);
  ForwardContext context = rig.forward();
  const ForwardState& state = context.state();
  const LayerShape& shape = data.shape();
  int64_t remote_rows = 0;
  for (int32_t e = 0; e < shape.num_experts; ++e) {
    for (const Instance& instance : state.plan.instances_of(e)) {
      int64_t row = 0;
      const int64_t begin = int64_t{instance.first_block} * state.plan.dims().block_rows;
      const int64_t end =
          begin + state.loads.rows_in_blocks(e, instance.first_block, instance.num_blocks,
                                             state.plan.dims().block_rows);
      for (int32_t source = 0; source < data.num_ranks(); ++source) {
        const int64_t next = row + state.loads.rows(source, e);
        if (source != instance.rank) {
          remote_rows += std::max<int64_t>(0, std::min(end, next) - std::max(begin, row));
        }
        row = next;
      }
    }
  }
  ASSERT_GT(remote_rows, 0);
  ASSERT_GT(state.plan.num_replicas(), 0);
  const int64_t row_bytes = shape.hidden * dtype_bytes(shape.dtype);
  EXPECT_EQ(rig.report.total(Traffic::kDispatch), remote_rows * row_bytes);
  EXPECT_EQ(rig.report.total(Traffic::kCombine), remote_rows * row_bytes);
  EXPECT_EQ(rig.report.total(Traffic::kWeights),
            state.plan.header().num_copies * shape.expert_bytes());
  EXPECT_EQ(rig.report.total(Traffic::kGradients), 0);
  const int32_t replicas = state.plan.num_replicas();
  rig.backward(context);
  EXPECT_EQ(rig.report.total(Traffic::kDispatch), remote_rows * (2 * row_bytes + 4));
  EXPECT_EQ(rig.report.total(Traffic::kCombine), remote_rows * (row_bytes + 4));
  EXPECT_EQ(rig.report.total(Traffic::kGradients), replicas * shape.expert_gradient_bytes());
  int64_t in = 0;
  int64_t out = 0;
  for (int32_t rank = 0; rank < data.num_ranks(); ++rank) {
    in += rig.report.bytes_in(Traffic::kCombine, rank);
    out += rig.report.bytes_out(Traffic::kCombine, rank);
  }
  EXPECT_EQ(in, rig.report.total(Traffic::kCombine));
  EXPECT_EQ(out, rig.report.total(Traffic::kCombine));
}

TEST(Session, PlansFromOutsideAreCheckedAndExecuted) {
  const StepData data(case_named("eight_ranks"), 51);
  StepRig rig(data);
  const StepOutput planned = rig.step();
  const Plan outside = random_plan(data, 17, 77);
  EXPECT_EQ(token_difference(planned, rig.step(0, &outside)), "");
  const StepData other(case_named("eight_ranks"), 52);
  const Plan wrong = random_plan(other, 17, 77);
  EXPECT_THROW((void)rig.forward(0, &wrong), Error);
  EXPECT_EQ(token_difference(planned, rig.step()), "") << "the session goes on after a refusal";
}

// 8192 tokens x 8 microbatches are 65,536; the bound is on T_max K, and both are named.
TEST(Session, IC_19_CapacityIsCheckedAtCreation) {
  SessionConfig config;
  config.shape = {.num_experts = 8, .topk = 8, .hidden = 8, .inter = 8};
  config.plan.dims = {8, 2, 1, 128};
  config.max_tokens = 1 << 28;
  try {
    const Session session(config);
    FAIL() << "2^31 pairs were accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_STREQ(error.what(), "max_tokens: 268435456 x topk 8 is outside [0, 2^31)");
  }
}

TEST(Session, IC_51_NoLayersComeAndGo) {
  SessionConfig config;
  config.shape = {.num_experts = 8, .topk = 2, .hidden = 8, .inter = 8};
  config.plan.dims = {8, 4, 1, 128};
  config.num_layers = 0;
  Session session(config);
  EXPECT_EQ(session.num_ranks(), 4);
  EXPECT_THROW(session.weights_changed(0), Error);
}

TEST(Session, OrphansAreAnOutcome) {
  const StepData data(case_named("eight_ranks"), 53);
  SessionConfig config = session_config(data);
  config.plan.active = {1, 1, 1, 0, 1, 1, 1, 1};
  StepRig rig(data, config);
  const ForwardContext context = rig.forward();
  EXPECT_TRUE(context.empty());
  EXPECT_FALSE(rig.report.plan.orphans.empty());
}

TEST(Session, ContextsSurviveTheFailureOfAnotherOne) {
  const StepData data(case_named("eight_ranks"), 54);
  SessionConfig config = session_config(data);
  config.waits.deadline = std::chrono::milliseconds(6000);
  StepRig rig(data, config);
  const StepOutput expected = StepRig(data).step();
  ForwardContext failing = rig.forward();
  ForwardContext waiting = rig.forward();
  EXPECT_THROW(rig.backward(failing, {.fault = Fault::kLostFlag}), Error);
  EXPECT_THROW(rig.backward(waiting), Error) << "a failed session refuses calls";
  EXPECT_FALSE(waiting.is_consumed()) << "a refused call leaves the context";
  rig.session().recover();
  rig.backward(waiting);
  StepOutput got = rig.out;
  got.y = expected.y;
  EXPECT_EQ(token_difference(expected, got) + gradient_difference(expected, got), "");
  EXPECT_THROW(rig.backward(failing), Error) << "its one use was the one that failed";
}

TEST(Session, IC_33_LostSignalEndsInANamedErrorAndRecovers) {
  const StepData data(case_named("eight_ranks"), 54);
  SessionConfig config = session_config(data);
  config.waits.deadline = std::chrono::milliseconds(6000);
  StepRig rig(data, config);
  try {
    (void)rig.forward(0, nullptr, Fault::kLostFlag);
    FAIL() << "the lost signal went unnoticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_NE(std::string(error.what()).find("x_full"), std::string::npos) << error.what();
  }
  EXPECT_THROW((void)rig.forward(), Error) << "a failed session refuses calls";
  rig.session().recover();
  StepRig sound(data);
  const StepOutput expected = sound.step();
  EXPECT_EQ(token_difference(expected, rig.step()), "");
}

// The failed launch may have filled slots with weights of layer 1, which nothing has recorded.
TEST(Session, RecoverForgetsKeptReplicas) {
  const StepData data(case_named("one_hot"), 55), other(case_named("one_hot"), 56);
  SessionConfig config = session_config(data);
  config.num_layers = 2;
  config.keeps_replicas = true;
  config.waits.deadline = std::chrono::milliseconds(6000);
  StepRig rig(data, config);
  for (int32_t rank = 0; rank < other.num_ranks(); ++rank) {
    rig.session().set_weights(1, rank, other.owned(rank));
  }
  const StepOutput expected = rig.step();
  EXPECT_THROW((void)rig.forward(1, nullptr, Fault::kLostFlag), Error);
  rig.session().recover();
  ForwardContext context = rig.forward();
  EXPECT_GT(rig.report.total(Traffic::kWeights), 0);
  rig.backward(context);
  EXPECT_EQ(token_difference(expected, rig.out), "");
}

}  // namespace
}  // namespace megaflux
