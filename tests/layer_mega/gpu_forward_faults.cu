// Bad arguments are named; a launch that waits for what never comes ends at its deadline, tells
// what it waited for, and the next one after recovery is right.
#include "layer_mega/forward_rig.cuh"

namespace megaflux::test {
namespace {

template <typename Fn>
std::string error_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(MegaForwardFaults, ArgumentsAreNamed) {
  MF_NEEDS_GPUS(1);
  const StepData data(case_of(shape_of(4, 2, 64, 64), 10), 1);
  ForwardRig rig(data);
  rig.route();
  std::vector<ForwardTensors> tensors = rig.tensors();
  const auto launch = [&] { rig.session().compute(tensors); };
  tensors[0].routing.num_tokens = 11;
  EXPECT_EQ(error_of(launch), "num_tokens: 11 is outside [0, 10]");
  tensors = rig.tensors();
  tensors[0].routing.topk = 3;
  EXPECT_EQ(error_of(launch), "topk: 3, the layer has 2");
  tensors = rig.tensors();
  tensors[0].y = nullptr;
  EXPECT_EQ(error_of(launch), "x, y, topk_ids or topk_weights is missing, and there are 10 tokens");
  tensors = rig.tensors();
  tensors[0].y = static_cast<std::byte*>(tensors[0].y) + 2;
  EXPECT_EQ(error_of(launch), "x or y does not begin at a multiple of 16 bytes");
  tensors.clear();
  EXPECT_EQ(error_of(launch), "ranks: tensors of 0, this process hosts 1");
}

TEST(MegaForwardFaults, LayersAndWeightsAreNamed) {
  MF_NEEDS_GPUS(1);
  const StepData data(case_of(shape_of(4, 2, 64, 64), 10), 7);
  ForwardRig rig(data);
  rig.route();
  const auto compute = [&](int32_t layer) {
    return error_of([&] { rig.session().compute(rig.tensors(), {.layer = layer}); });
  };
  EXPECT_EQ(compute(1), "layer: 1 is outside [0, 1)");
  const auto set = [&](const MegaWeights& weights) {
    return error_of([&] { rig.session().set_weights(0, std::span(&weights, 1)); });
  };
  MegaWeights weights = rig.rank(0).owned(data, 0);
  weights.num_owned = 5;
  EXPECT_EQ(set(weights), "weights[0]: num_owned 5, rank 0 owns 4 experts");
  weights = rig.rank(0).owned(data, 0);
  weights.w2 = nullptr;
  EXPECT_EQ(set(weights), "weights: w1 or w2 is missing");
  weights = rig.rank(0).owned(data, 0);
  weights.b1 = rig.rank(0).weights.data();
  EXPECT_EQ(set(weights), "weights: the shape has no biases, and one is given");
  weights = rig.rank(0).owned(data, 0);
  weights.w1 = static_cast<const std::byte*>(weights.w1) + 8;
  EXPECT_EQ(set(weights), "weights: do not begin at a multiple of 16 bytes");
  EXPECT_EQ(error_of([&] { rig.session().set_weights(0, {}); }),
            "weights: of 0 ranks, this process hosts 1");
}

// The same plan for slots that hold what it wants already.
Plan all_resident(const Plan& plan, const StepData& data) {
  std::vector<DraftReplica> replicas;
  std::vector<int32_t> blocks;
  const PlanDims dims = plan.dims();
  for (int32_t expert = 0; expert < dims.num_experts; ++expert) {
    blocks.push_back(ceil_div(data.loads().totals()[expert], dims.block_rows));
    for (const Instance& instance : plan.instances_of(expert)) {
      if (instance.slot >= 0) replicas.push_back({expert, instance.rank, instance.num_blocks});
    }
  }
  Plan resident;
  resident.assign({.dims = dims,
                   .owner_of = plan.owner_of(),
                   .blocks = blocks,
                   .replicas = replicas,
                   .resident = plan.slot_expert()});
  return resident;
}

// What would be computed without a complaint, and wrong.
TEST(MegaForwardFaults, PoolsOrdersAndPlansAreChecked) {
  MF_NEEDS_GPUS(1);
  LayerCase layer_case = case_of(shape_of(4, 2, 64, 64), 40);
  layer_case.tokens = {40, 25};
  layer_case.replica_slots = 1;
  layer_case.block_rows = 4;
  const StepData data(layer_case, 7);
  ForwardRig rig(data);
  const Outputs expected = rig.step();
  const Plan plan = spread_plan(data, 4);
  ASSERT_GE(plan.slot_expert()[0], 0);
  const std::string resident = error_of([&] { rig.set_plan(all_resident(plan, data)); });
  EXPECT_NE(resident.find("is marked resident, the slot holds -1"), std::string::npos) << resident;
  EXPECT_EQ(rig.forward(), expected) << "the plan before is there";
  EXPECT_EQ(
      error_of([&] { rig.session().route(rig.tensors(), {.order = PartOrder::kReplicatedFirst}); }),
      "order: a forward takes kOwnedFirst");
}

TEST(MegaForwardFaults, AResultThatNeverComes) {
  MF_NEEDS_GPUS(1);
  MF_NEEDS_REAL_TIME();
  const StepData data(case_of(shape_of(4, 2, 64, 64), 40), 2);
  ForwardRig rig(data, {.deadline_ms = 1'000});
  const Outputs expected = rig.step();
  // Ids that the head has not seen.
  const std::vector<std::byte> ids = rig.rank(0).ids.download();
  const std::vector<std::byte> none(ids.size(), std::byte{0xff});  // -1
  rig.rank(0).ids.upload(std::span<const std::byte>(none));
  rig.route();
  rig.rank(0).ids.upload(std::span<const std::byte>(ids));
  const std::string failure = error_of([&] { rig.forward(); });
  EXPECT_NE(failure.find("y_count"), std::string::npos) << failure;
  rig.session().group().recover();
  EXPECT_EQ(rig.step(), expected);
}

TEST(MegaForwardFaults, RowsThatNeverCome) {
  MF_NEEDS_GPUS(1);
  const StepData data(case_of(shape_of(2, 1, 64, 64), 400), 3);
  ForwardRig rig(data, {.deadline_ms = gpu::by_size(1'000, 5'000, 1'000)});
  const Outputs expected = rig.step();
  // A header of one tile less: nobody brings the last one.
  const auto header = rig.session().head_fields().work;
  std::vector<WorkListHeader> shorter = rig.download(0, header);
  --shorter[0].num_tiles;
  rig.upload(0, header, std::span<const WorkListHeader>(shorter));
  const std::string failure = error_of([&] { rig.forward(); });
  EXPECT_NE(failure.find("waiting for"), std::string::npos) << failure;
  EXPECT_TRUE(failure.find("x_full") != std::string::npos ||
              failure.find("y_count") != std::string::npos)
      << failure;
  rig.session().group().recover();
  EXPECT_EQ(rig.step(), expected);
}

// Poisoned before the launch, and still so behind it.
void expect_untouched(const ForwardRig& rig) {
  for (const std::vector<uint16_t>& y : rig.outputs()) {
    for (const uint16_t bits : y) ASSERT_EQ(bits, 0xcdcd);
  }
}

LayerCase two_ranks() {
  LayerCase layer_case = case_of(shape_of(4, 2, 64, 64), 40);
  layer_case.tokens = {40, 25};
  return layer_case;
}

TEST(MegaForwardFaults, RanksWithDifferentPlansRefuseTogether) {
  MF_NEEDS_GPUS(1);
  const StepData data(two_ranks(), 4);
  ForwardRig rig(data);
  const Outputs expected = rig.step();
  const auto plan = rig.session().head_fields().plan;
  std::vector<std::byte> other = rig.download(1, plan);
  const std::vector<std::byte> same = other;
  other[offsetof(PlanHeader, hash)] ^= std::byte{1};
  rig.upload(1, plan, std::span<const std::byte>(other));
  const std::string failure = error_of([&] { rig.forward(); });
  EXPECT_NE(failure.find("ranks disagree: rank 1"), std::string::npos) << failure;
  EXPECT_NE(failure.find("plan"), std::string::npos) << failure;
  expect_untouched(rig);
  rig.upload(1, plan, std::span<const std::byte>(same));
  EXPECT_EQ(rig.forward(), expected);
}

TEST(MegaForwardFaults, WithoutAPlanNothingIsWritten) {
  MF_NEEDS_GPUS(1);
  const StepData data(two_ranks(), 5);
  ForwardRig rig(data);
  const Outputs expected = rig.step();
  for (int32_t rank = 0; rank < 2; ++rank) {  // as a head leaves it that finds no legal plan
    const std::vector<std::byte> none(sizeof(PlanHeader), std::byte{0});
    rig.upload(rank, rig.session().head_fields().plan, std::span<const std::byte>(none));
    const WorkListHeader empty = {.rank = rank};
    rig.upload(rank, rig.session().head_fields().work, std::span<const WorkListHeader>(&empty, 1));
  }
  const std::string failure = error_of([&] { rig.forward(); });
  EXPECT_NE(failure.find("refused"), std::string::npos) << failure;
  expect_untouched(rig);
  EXPECT_EQ(rig.step(), expected);
}

__global__ void hold_sm_kernel(uint64_t nanoseconds) {
  const uint64_t begin = cuda::ptx::get_sreg_globaltimer();
  while (cuda::ptx::get_sreg_globaltimer() - begin < nanoseconds) {
  }
}

TEST(MegaForwardFaults, WaitsForSmsThatAnotherKernelHolds) {
  MF_NEEDS_GPUS(1);
  const StepData data(two_ranks(), 6);
  ForwardRig rig(data);
  const Outputs expected = rig.step();
  cudaStream_t other = nullptr;
  MF_CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  // Shared memory that leaves none for a CTA of ours on its SM.
  constexpr int kShared = 128 * 1024;
  MF_CUDA(
      cudaFuncSetAttribute(hold_sm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  hold_sm_kernel<<<16, 32, kShared, other>>>(100'000'000);
  MF_CUDA(cudaGetLastError());
  rig.session().forward(rig.tensors());
  rig.session().group().synchronize();
  EXPECT_EQ(rig.outputs(), expected);
  MF_CUDA(cudaStreamSynchronize(other));
  MF_CUDA(cudaStreamDestroy(other));
}

}  // namespace
}  // namespace megaflux::test
