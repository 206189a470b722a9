// Replica weights that are pulled while the layer runs: right for every number of slots and shape
// of weights, bound to what the owners hold, and free for their owners once the launch is over.
#include "layer_mega/forward_rig.cuh"

namespace megaflux::test {
namespace {

// Most rows go to experts of rank 0, so that the others host many replicas.
LayerCase hot_case(const LayerShape& shape, int32_t slots) {
  LayerCase layer_case = {.name = "",
                          .shape = shape,
                          .tokens = {300, 120, 260, 40},
                          .route = RouteKind::kSkewed,
                          .replica_slots = slots};
  if (gpu::size() == gpu::Size::kSanitize) layer_case.tokens = {30, 12, 26, 4};
  layer_case.block_rows = gpu::by_size(32, 4, 32);
  return layer_case;
}

int32_t num_replicas(ForwardRig& rig) {
  return Plan::from_bytes(rig.session().read_step(0).plan).num_replicas();
}

TEST(MegaForwardReplicas, AnyNumberOfSlots) {
  MF_NEEDS_GPUS(1);
  for (const int32_t slots : {1, 2, 3, 5, 8}) {
    const StepData data(hot_case(shape_of(16, 2, 128, 192), slots), 41);
    ForwardRig fixed(data);
    const Outputs expected = fixed.step();
    ASSERT_LE(relative_error(expected, reference_y(data)), kTolerance);
    ForwardRig rig(data, {.planner = PlannerKind::kMegaflux});
    EXPECT_EQ(rig.step(), expected) << slots;
    EXPECT_GT(num_replicas(rig), 0) << slots;
    rig.set_plan(spread_plan(data, data.layer_case.block_rows));
    EXPECT_EQ(rig.forward(), expected) << slots << ", all slots";
  }
}

// Column tiles that are cut off, and pieces that are smaller and larger than a chunk.
TEST(MegaForwardReplicas, WeightsOfAnyShape) {
  MF_NEEDS_GPUS(1);
  for (const auto& [hidden, inter] :
       {std::pair{64, 64}, {64, 1088}, {320, 192}, {1088, 64}, {832, 448}}) {
    for (const bool has_bias : {false, true}) {
      LayerShape shape = shape_of(6, 2, hidden, inter);
      shape.has_bias = has_bias;
      shape.gate_order = has_bias ? GateOrder::kUpGate : GateOrder::kGateUp;
      const StepData data(hot_case(shape, 2), 42);
      const Outputs expected = ForwardRig(data).step();
      ForwardRig rig(data);
      rig.route();
      rig.set_plan(spread_plan(data, data.layer_case.block_rows));
      EXPECT_EQ(rig.forward(), expected) << "H " << hidden << ", I " << inter << ", " << has_bias;
    }
  }
}

TEST(MegaForwardReplicas, PlansRingsAndDelaysDoNotShow) {
  MF_NEEDS_GPUS(1);
  const StepData data(hot_case(shape_of(12, 3, 192, 320), 3), 43);
  const Outputs expected = ForwardRig(data).step();
  for (const Knobs& knobs :
       {Knobs{}, Knobs{.pool_rows = 128}, Knobs{.pool_rows = 512, .num_sms = 3},
        Knobs{.pool_rows = 1280, .num_sms = 7, .lag_waves = 9}, Knobs{.num_sms = 1}}) {
    ForwardRig rig(data, knobs);
    rig.route();
    for (uint64_t seed = 1; seed <= gpu::by_size<uint64_t>(6, 1, 40); ++seed) {
      rig.session().group().set_delay_fuzz(seed);
      rig.set_plan(random_plan(data, data.layer_case.block_rows, seed));
      ASSERT_EQ(rig.forward(), expected)
          << "C " << knobs.pool_rows << ", SMs " << knobs.num_sms << ", seed " << seed;
    }
  }
}

// The GEMMs alone bring nothing, so they wait for nothing that is brought.
TEST(MegaForwardReplicas, GemmsAloneTakeWhatIsInTheSlots) {
  MF_NEEDS_GPUS(1);
  const StepData data(hot_case(shape_of(8, 2, 128, 128), 2), 50);
  ForwardRig rig(data, {.planner = PlannerKind::kMegaflux, .pool_rows = 1 << 14});
  const Outputs expected = rig.step();
  ASSERT_GT(num_replicas(rig), 0);
  rig.session().set_stages(ForwardStages::kGemms);
  rig.session().compute(rig.tensors());
  rig.session().group().synchronize();
  EXPECT_EQ(rig.outputs(), expected) << "y is left alone";
  rig.session().set_stages(ForwardStages::kWhole);
  EXPECT_EQ(rig.forward(), expected);
}

// A rank without experts of its own, whose list begins with a replica.
TEST(MegaForwardReplicas, RanksThatOwnNothing) {
  MF_NEEDS_GPUS(1);
  for (const bool has_bias : {false, true}) {
    LayerCase layer_case = hot_case(shape_of(3, 2, 128, 128), 2);
    layer_case.shape.has_bias = has_bias;  // in their slots alone
    layer_case.tokens.resize(5, 50);
    const StepData data(layer_case, 44);
    const Outputs expected = ForwardRig(data).step();
    for (const int64_t pool_rows : {0, 256}) {
      ForwardRig rig(data, {.pool_rows = pool_rows});
      rig.route();
      rig.set_plan(spread_plan(data, layer_case.block_rows));
      EXPECT_EQ(rig.forward(), expected) << "biases " << has_bias << ", C " << pool_rows;
    }
  }
}

// What a plan calls resident is not pulled, and the rest is (IC-23 needs both).
TEST(MegaForwardReplicas, ResidentSlotsAreLeftAlone) {
  MF_NEEDS_GPUS(1);
  const StepData data(hot_case(shape_of(8, 2, 128, 128), 2), 45);
  const Outputs expected = ForwardRig(data).step();
  ForwardRig rig(data, {.transfer = ReplicaTransfer::kInPlace});
  rig.route();
  const Plan plan = spread_plan(data, data.layer_case.block_rows);
  rig.set_plan(plan);
  // Rank 1: slot 0 is resident, slot 1 is not.
  std::vector<std::byte> bytes(plan.bytes().begin(), plan.bytes().end());
  const size_t resident = PlanLayout(plan.dims()).slot_resident;
  ASSERT_GE(plan.slot_expert()[2], 0);
  ASSERT_GE(plan.slot_expert()[3], 0);
  bytes[resident + 2] = std::byte{1};
  for (int32_t i = 0; i < rig.num_local(); ++i) {
    rig.upload(i, rig.session().head_fields().plan, std::span<const std::byte>(bytes));
  }
  rig.session().set_transfer(ReplicaTransfer::kPipelined);
  rig.spoil_slot(1, 1);
  EXPECT_EQ(rig.forward(), expected) << "slot 1 is pulled";
  rig.spoil_slot(1, 0);
  EXPECT_NE(rig.forward(), expected) << "slot 0 is not";
}

// Two layers with weights of their own take turns with the same slots.
TEST(MegaForwardReplicas, LayersShareSlots_IC_23) {
  MF_NEEDS_GPUS(1);
  const LayerCase layer_case = hot_case(shape_of(12, 2, 192, 128), 3);
  StepData data(layer_case, 50);
  ForwardRig rig(data, {.planner = PlannerKind::kMegaflux, .num_layers = 2});
  const Outputs first = rig.step();
  ASSERT_GT(num_replicas(rig), 0);
  data.redraw_weights(97);
  std::vector<RankTensors> others;
  std::vector<MegaWeights> weights;
  for (int32_t rank = 0; rank < data.num_ranks(); ++rank) {
    others.emplace_back(data, rank, 0);
    weights.push_back(others.back().owned(data, rank));
  }
  rig.session().set_weights(1, weights);
  const Outputs second = [&] {
    rig.session().forward(rig.tensors(), {.layer = 1});
    rig.session().group().synchronize();
    return rig.outputs();
  }();
  EXPECT_NE(second, first);
  EXPECT_LE(relative_error(second, reference_y(data)), kTolerance);
  for (int repeat = 0; repeat < gpu::by_size(30, 2, 300); ++repeat) {
    rig.session().group().set_delay_fuzz(1 + repeat);
    const int32_t layer = repeat % 3 % 2;  // 0 1 0 0 1 0 ...
    for (const int32_t before : {0, 1, 0}) rig.session().forward(rig.tensors(), {.layer = before});
    rig.session().forward(rig.tensors(), {.layer = layer});
    rig.session().group().synchronize();
    ASSERT_EQ(rig.outputs(), layer == 0 ? first : second) << "repeat " << repeat;
  }
}

// Right behind the launch, on the stream of their device, the owners' weights are overwritten.
// Ranks of one device end their launch together: only those of another one show that an owner
// waits.
void expect_owners_may_overwrite(int32_t num_devices) {
  const StepData data(hot_case(shape_of(12, 2, 256, 192), 3), 46);
  ForwardRig rig(data, {.planner = PlannerKind::kMegaflux, .num_devices = num_devices});
  const Outputs expected = rig.step();
  ASSERT_GT(num_replicas(rig), 0);
  const DeviceGroup& group = rig.session().group();
  for (int repeat = 0; repeat < gpu::by_size(20, 2, 200); ++repeat) {
    std::vector<std::vector<std::byte>> before;
    for (int32_t i = 0; i < rig.num_local(); ++i) before.push_back(rig.rank(i).w1.download());
    rig.session().group().set_delay_fuzz(1 + repeat);
    rig.session().forward(rig.tensors());
    int32_t i = 0;
    for (size_t d = 0; d < group.num_devices(); ++d) {
      const CurrentDevice current(group.device(d));
      for (size_t k = 0; k < group.ranks_on(d).size(); ++k, ++i) {
        const auto& w1 = rig.rank(i).w1;
        MF_CUDA(cudaMemsetAsync(w1.data(), 0xff, w1.bytes(), group.stream(d)));
      }
    }
    rig.session().group().synchronize();
    ASSERT_EQ(rig.outputs(), expected) << "repeat " << repeat;
    for (i = 0; i < rig.num_local(); ++i) {
      rig.rank(i).w1.upload(std::span<const std::byte>(before[i]));
    }
  }
}

TEST(MegaForwardReplicas, OwnersMayOverwriteTheirWeightsAfterTheLaunch) {
  MF_NEEDS_GPUS(1);
  expect_owners_may_overwrite(1);
}
TEST(MegaForwardReplicas, OwnersOfAnotherDeviceMayOverwriteTheirWeights) {
  MF_NEEDS_GPUS(2);
  expect_owners_may_overwrite(2);
}

// Weights that change between two launches of the same routing are the ones that count.
TEST(MegaForwardReplicas, ChangedWeightsArePulledAnew) {
  MF_NEEDS_GPUS(1);
  StepData data(hot_case(shape_of(8, 2, 128, 192), 2), 47);
  ForwardRig rig(data, {.planner = PlannerKind::kMegaflux});
  const Outputs first = rig.step();
  data.redraw_weights(99);
  for (int32_t i = 0; i < rig.num_local(); ++i) rig.upload_weights(i);
  const Outputs second = rig.forward();
  EXPECT_NE(second, first);
  EXPECT_LE(relative_error(second, reference_y(data)), kTolerance);
}

TEST(MegaForwardReplicas, StagedWeightsGiveTheSameBits) {
  MF_NEEDS_GPUS(1);
  for (const bool has_bias : {false, true}) {
    LayerShape shape = shape_of(12, 3, 320, 192);
    shape.has_bias = has_bias;
    const StepData data(hot_case(shape, 3), 48);
    const Outputs expected = ForwardRig(data).step();
    ForwardRig rig(data, {.planner = PlannerKind::kMegaflux, .transfer = ReplicaTransfer::kStaged});
    EXPECT_EQ(rig.step(), expected);
    EXPECT_GT(num_replicas(rig), 0);
    for (uint64_t seed = 1; seed <= gpu::by_size<uint64_t>(6, 1, 40); ++seed) {
      rig.session().group().set_delay_fuzz(seed);
      rig.set_plan(random_plan(data, data.layer_case.block_rows, seed));
      ASSERT_EQ(rig.forward(), expected) << "seed " << seed;
    }
  }
}

Plan plan_of(ForwardRig& rig) {
  return Plan::from_bytes(rig.session().read_step(0).plan);
}

// Slots are keyed by layer and weight version, and what moves is what no slot holds.
TEST(MegaForwardReplicas, KeptReplicasAreResident) {
  MF_NEEDS_GPUS(1);
  StepData data(hot_case(shape_of(8, 2, 128, 192), 2), 49);
  const Outputs expected = ForwardRig(data).step();
  ForwardRig rig(data,
                 {.planner = PlannerKind::kMegaflux, .keeps_replicas = true, .num_layers = 2});
  const auto step = [&](int32_t layer, uint64_t version) {
    const DeviceHeadStep key = {.layer = layer, .weight_version = version};
    rig.session().route(rig.tensors(), key);
    rig.session().compute(rig.tensors(), key);
    rig.session().group().synchronize();
    return rig.outputs();
  };
  EXPECT_EQ(step(0, 1), expected);
  const int32_t copies = plan_of(rig).header().num_copies;
  ASSERT_GT(copies, 0);
  EXPECT_EQ(step(0, 1), expected);
  EXPECT_EQ(plan_of(rig).header().num_copies, 0) << "the same weights again";
  data.redraw_weights(98);
  for (int32_t i = 0; i < rig.num_local(); ++i) rig.upload_weights(i);
  EXPECT_LE(relative_error(step(0, 2), reference_y(data)), kTolerance) << "another version";
  EXPECT_EQ(plan_of(rig).header().num_copies, copies);
  step(1, 2);
  EXPECT_EQ(plan_of(rig).header().num_copies, copies) << "another layer";
  step(1, 2);
  EXPECT_EQ(plan_of(rig).header().num_copies, 0);
  rig.session().recover();
  step(1, 2);
  EXPECT_EQ(plan_of(rig).header().num_copies, copies) << "recovered";
}

// What was refused, or captured and never run, has filled no slot.
TEST(MegaForwardReplicas, WhatNeverRanLeavesNothingResident) {
  MF_NEEDS_GPUS(1);
  StepData data(hot_case(shape_of(8, 2, 128, 192), 2), 51);
  ForwardRig rig(data, {.planner = PlannerKind::kMegaflux, .keeps_replicas = true});
  DeviceSession& session = rig.session();
  const cudaStream_t stream = session.group().stream(0);
  const auto step = [&](uint64_t version) {
    session.forward(rig.tensors(), {.weight_version = version});
    session.group().synchronize();
    return rig.outputs();
  };
  const auto change_weights = [&](uint64_t seed) {
    data.redraw_weights(seed);
    for (int32_t i = 0; i < rig.num_local(); ++i) rig.upload_weights(i);
  };
  step(1);
  ASSERT_GT(plan_of(rig).header().num_copies, 0);

  change_weights(97);
  session.route(rig.tensors(), {.weight_version = 2});
  session.group().synchronize();
  for (int32_t i = 0; i < rig.num_local(); ++i) {  // as a head leaves it that finds no legal plan
    const std::vector<std::byte> none(sizeof(PlanHeader), std::byte{0});
    rig.upload(i, session.head_fields().plan, std::span<const std::byte>(none));
  }
  session.compute(rig.tensors(), {.weight_version = 2});
  EXPECT_THROW(session.group().synchronize(), Error);
  EXPECT_LE(relative_error(step(2), reference_y(data)), kTolerance) << "refused";

  change_weights(96);
  cudaGraph_t graph = nullptr;
  MF_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  session.forward(rig.tensors(), {.weight_version = 3});
  MF_CUDA(cudaStreamEndCapture(stream, &graph));
  MF_CUDA(cudaGraphDestroy(graph));
  EXPECT_LE(relative_error(step(3), reference_y(data)), kTolerance) << "captured";

  session.route(rig.tensors(), {.weight_version = 4});
  EXPECT_THROW(session.compute(rig.tensors(), {.weight_version = 3}), Error);
}

// Slots that were filled ahead of a compute are known once it has run.
TEST(MegaForwardReplicas, WhatIsDistributedIsResidentBehindItsCompute) {
  MF_NEEDS_GPUS(1);
  const StepData data(hot_case(shape_of(8, 2, 128, 192), 2), 52);
  const Outputs expected = ForwardRig(data).step();
  ForwardRig rig(data, {.planner = PlannerKind::kMegaflux,
                        .transfer = ReplicaTransfer::kStaged,
                        .keeps_replicas = true});
  const auto route = [&] {
    rig.route();
    return plan_of(rig).header().num_copies;
  };
  const int32_t copies = route();
  ASSERT_GT(copies, 0);
  EXPECT_EQ(rig.forward(), expected);
  EXPECT_EQ(route(), 0) << "computed";
  rig.session().distribute();
  EXPECT_EQ(route(), copies) << "filled for a compute that never came";
  EXPECT_EQ(rig.forward(), expected);
  EXPECT_EQ(route(), 0);
}

}  // namespace
}  // namespace megaflux::test
