// Faults that a forward commits on purpose: each shows in its own way and in no other, and leaves
// nothing behind for the next forward.
#include <cmath>

#include "layer_mega/forward_rig.cuh"

namespace megaflux::test {
namespace {

// Most rows go to experts of rank 0, so that the others host replicas.
LayerCase hot_case(const LayerShape& shape) {
  LayerCase layer_case = {.name = "",
                          .shape = shape,
                          .tokens = {300, 120, 260, 40},
                          .route = RouteKind::kSkewed,
                          .replica_slots = 2};
  if (gpu::size() == gpu::Size::kSanitize) layer_case.tokens = {30, 12, 26, 4};
  layer_case.block_rows = gpu::by_size(32, 4, 32);
  return layer_case;
}

// A forward with the fault on the plan that the last route has left, then one without.
Outputs forward_with(ForwardRig& rig, Fault fault) {
  rig.session().set_fault(fault);
  Outputs outputs = rig.forward();
  rig.session().set_fault(Fault::kNone);
  return outputs;
}

// Tokens of all ranks whose y is not the same.
int32_t count_tokens_that_differ(const Outputs& a, const Outputs& b, int32_t hidden) {
  int32_t count = 0;
  for (size_t rank = 0; rank < a.size(); ++rank) {
    for (size_t first = 0; first < a[rank].size(); first += static_cast<size_t>(hidden)) {
      const auto at = static_cast<ptrdiff_t>(first);
      count +=
          !std::equal(a[rank].begin() + at, a[rank].begin() + at + hidden, b[rank].begin() + at);
    }
  }
  return count;
}

TEST(MegaForwardInjected, WeightsOfSlots) {
  MF_NEEDS_GPUS(1);
  const StepData data(hot_case(shape_of(16, 2, 128, 192)), 71);
  const Outputs expected = ForwardRig(data).step();
  const auto reference = reference_y(data);
  ASSERT_LE(relative_error(expected, reference), kTolerance);
  for (const ReplicaTransfer transfer : {ReplicaTransfer::kPipelined, ReplicaTransfer::kStaged}) {
    ForwardRig rig(data, {.planner = PlannerKind::kMegaflux, .transfer = transfer});
    rig.route();
    ASSERT_GT(Plan::from_bytes(rig.session().read_step(0).plan).num_replicas(), 0);
    // Slots are poisoned: one that nobody fills gives NaNs, another expert's weights numbers.
    const double stale = relative_error(forward_with(rig, Fault::kStaleSlot), reference);
    EXPECT_TRUE(std::isinf(stale)) << stale;
    EXPECT_EQ(rig.forward(), expected) << "behind a stale slot";
    const double wrong = relative_error(forward_with(rig, Fault::kWrongOwner), reference);
    EXPECT_TRUE(std::isfinite(wrong)) << wrong;
    EXPECT_GT(wrong, 10 * kTolerance);
    EXPECT_EQ(rig.forward(), expected) << "behind a wrong owner";
  }
}

TEST(MegaForwardInjected, OneRowOfARankIsDropped) {
  MF_NEEDS_GPUS(1);
  for (const int64_t pool_rows : {int64_t{0}, int64_t{128}}) {
    const StepData data(hot_case(shape_of(16, 2, 128, 64)), 72);
    ForwardRig rig(data, {.planner = PlannerKind::kMegaflux, .pool_rows = pool_rows});
    const Outputs expected = rig.step();
    const Outputs dropped = forward_with(rig, Fault::kDropRow);
    const int32_t count = count_tokens_that_differ(dropped, expected, data.shape().hidden);
    EXPECT_GE(count, 1);
    EXPECT_LE(count, data.num_ranks());
    EXPECT_GT(relative_error(dropped, reference_y(data)), kTolerance);
    EXPECT_EQ(rig.forward(), expected) << "behind a dropped row";
  }
}

// y from the results that a forward has left in the heaps, with k in either order.
Outputs sum_results(ForwardRig& rig, const StepData& data, bool is_descending) {
  const LayerShape& shape = data.shape();
  Outputs all;
  for (int32_t rank = 0; rank < rig.num_local(); ++rank) {
    const std::vector<Bf16> results = rig.download(rank, rig.session().fields().results);
    const RoutingView& routing = data.routing[rank];
    std::vector<uint16_t>& y = all.emplace_back();
    for (int64_t i = 0; i < int64_t{routing.num_tokens} * shape.hidden; ++i) {
      const int64_t token = i / shape.hidden;
      float sum = 0;
      for (int32_t n = 0; n < shape.topk && token < routing.valid_tokens(); ++n) {
        const int32_t k = is_descending ? shape.topk - 1 - n : n;
        if (routing.expert_at(static_cast<int32_t>(token), k) < 0) continue;
        const int64_t pair = token * shape.topk + k;
        const Bf16 result = results[static_cast<size_t>(pair * shape.hidden + i % shape.hidden)];
        sum = std::fmaf(data.topk_weights[rank][static_cast<size_t>(pair)],
                        static_cast<float>(result), sum);
      }
      y.push_back(Bf16(sum).bits);
    }
  }
  return all;
}

// K within one round of loads, in several, and beyond a warp; columns of a slice and of a token.
TEST(MegaForwardInjected, ResultsAreSummedBackwards) {
  MF_NEEDS_GPUS(1);
  for (const auto& [topk, hidden] : {std::pair{2, 64}, {6, 1088}, {11, 576}, {40, 64}}) {
    const StepData data(hot_case(shape_of(48, topk, hidden, 64)), 73);
    ForwardRig rig(data, {.planner = PlannerKind::kMegaflux});
    const Outputs forwards = rig.step();
    EXPECT_EQ(forwards, sum_results(rig, data, false)) << "K " << topk;
    const Outputs backwards = forward_with(rig, Fault::kSwapKOrder);
    EXPECT_EQ(backwards, sum_results(rig, data, true)) << "K " << topk;
    EXPECT_LE(relative_error(backwards, reference_y(data)), kTolerance);
    // One element of 20,000 has other bits: of few elements there may be none.
    const bool has_many = gpu::size() != gpu::Size::kSanitize && hidden > 64;
    if (has_many) EXPECT_NE(backwards, forwards) << "K " << topk;
  }
}

TEST(MegaForwardInjected, ALostFlagIsTheOneNamed) {
  MF_NEEDS_GPUS(1);
  const StepData data(hot_case(shape_of(16, 2, 128, 64)), 74);
  for (const int64_t pool_rows : {int64_t{0}, int64_t{256}}) {
    ForwardRig rig(data, {.planner = PlannerKind::kMegaflux,
                          .pool_rows = pool_rows,
                          .deadline_ms = gpu::by_size(1'000, 5'000, 1'000)});
    const Outputs expected = rig.step();
    std::string failure = "no error";
    try {
      forward_with(rig, Fault::kLostFlag);
    } catch (const Error& error) {
      failure = error.what();
    }
    for (const char* words : {"timed out", "(compute, CTA ", "x_full[", "expected 128, saw 0"}) {
      EXPECT_NE(failure.find(words), std::string::npos) << words << ": " << failure;
    }
    rig.session().set_fault(Fault::kNone);
    rig.session().recover();
    EXPECT_EQ(rig.step(), expected);
  }
}

// Slots that are kept are not kept from a forward that went wrong on purpose.
TEST(MegaForwardInjected, SlotsOfAFaultyForwardAreFilledAgain) {
  MF_NEEDS_GPUS(1);
  const StepData data(hot_case(shape_of(16, 2, 128, 192)), 75);
  const Outputs expected = ForwardRig(data).step();
  for (const Fault fault : {Fault::kStaleSlot, Fault::kWrongOwner}) {
    ForwardRig rig(data, {.planner = PlannerKind::kMegaflux, .keeps_replicas = true});
    const auto copies = [&] {
      return Plan::from_bytes(rig.session().read_step(0).plan).header().num_copies;
    };
    rig.route();
    ASSERT_GT(copies(), 0);
    EXPECT_NE(forward_with(rig, fault), expected);
    EXPECT_EQ(rig.step(), expected);
    EXPECT_GT(copies(), 0) << "nothing was resident";
    rig.route();
    EXPECT_EQ(copies(), 0) << "now all of it is";
  }
}

TEST(MegaForwardInjected, FaultsOfABackwardAreRefused) {
  MF_NEEDS_GPUS(1);
  const StepData data(hot_case(shape_of(4, 2, 64, 64)), 76);
  ForwardRig rig(data);
  const Outputs expected = rig.step();
  std::string failure = "no error";
  try {
    forward_with(rig, Fault::kSkipReplicaGradient);
  } catch (const Error& error) {
    failure = error.what();
  }
  EXPECT_EQ(failure, "fault: kSkipReplicaGradient is one of a backward, this is a forward");
  rig.session().set_fault(Fault::kNone);
  EXPECT_EQ(rig.forward(), expected);
}

}  // namespace
}  // namespace megaflux::test
