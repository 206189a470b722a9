// The forward of several ranks, virtual ones on one GPU and real ones on two: right for every shape
// and owner table, and bit for bit the same whatever computes where.
#include "layer_mega/forward_rig.cuh"

namespace megaflux::test {
namespace {

// Tokens by rank, cut where a sanitizer could not bear them.
std::vector<int32_t> few(std::vector<int32_t> tokens) {
  for (int32_t& of_rank : tokens) of_rank = gpu::by_size(of_rank, std::min(of_rank, 12), of_rank);
  return tokens;
}

LayerCase ranks_case(const LayerShape& shape, std::vector<int32_t> tokens, RouteKind route,
                     int32_t slots = 2) {
  return {.name = "",
          .shape = shape,
          .tokens = few(std::move(tokens)),
          .route = route,
          .replica_slots = slots};
}

// Skewed loads on four ranks of unequal size, owners in no order.
LayerCase skewed_case(int32_t block_rows = 128) {
  LayerCase layer_case =
      ranks_case(shape_of(10, 3, 192, 192), {400, 90, 700, 0}, RouteKind::kSkewed);
  layer_case.is_owner_scattered = true;
  layer_case.block_rows = block_rows;
  return layer_case;
}

void expect_case(const LayerCase& layer_case, uint64_t seed) {
  const StepData data(layer_case, seed);
  const auto want = reference_y(data);
  ForwardRig fixed(data);
  const Outputs expected = fixed.step();
  EXPECT_LE(relative_error(expected, want), kTolerance);
  ForwardRig balanced(data, {.planner = PlannerKind::kMegaflux});
  EXPECT_EQ(balanced.step(), expected) << "with replicas";
}

TEST(MegaForwardRanks, AnyNumberOfRanksAndTokens) {
  MF_NEEDS_GPUS(1);
  expect_case(ranks_case(shape_of(4, 2, 128, 64), {150, 150}, RouteKind::kUniform), 1);
  expect_case(ranks_case(shape_of(6, 2, 64, 128), {1, 0}, RouteKind::kUniform), 2);
  expect_case(ranks_case(shape_of(9, 3, 320, 64), {200, 0, 31}, RouteKind::kSkewed), 3);
  expect_case(ranks_case(shape_of(16, 4, 64, 64), {64, 33, 64, 1, 64, 90, 0, 7}, RouteKind::kHoles),
              4);
  expect_case(ranks_case(shape_of(8, 2, 64, 64), {0, 0, 0, 0}, RouteKind::kUniform), 5);
  expect_case(ranks_case(shape_of(5, 2, 64, 64), std::vector<int32_t>(gpu::by_size(33, 9, 66), 20),
                         RouteKind::kSkewed),
              6);
}

TEST(MegaForwardRanks, RanksWithoutExperts) {
  MF_NEEDS_GPUS(1);
  // Seven experts on nine ranks, and without slots two ranks have no weights at all.
  for (const int32_t slots : {0, 2}) {
    expect_case(ranks_case(shape_of(7, 2, 64, 64), {9, 80, 7, 6, 50, 4, 3, 2, 90},
                           RouteKind::kSkewed, slots),
                7);
  }
}

TEST(MegaForwardRanks, RoutesOfEveryKind) {
  MF_NEEDS_GPUS(1);
  for (const RouteKind route : {RouteKind::kOneHot, RouteKind::kAllToRank0, RouteKind::kDuplicates,
                                RouteKind::kHoles, RouteKind::kNone}) {
    SCOPED_TRACE("route " + std::to_string(static_cast<int>(route)));
    expect_case(ranks_case(shape_of(8, 2, 192, 128), {300, 170, 60, 260}, route), 8);
  }
}

TEST(MegaForwardRanks, BiasesClampAndScatteredOwners) {
  MF_NEEDS_GPUS(1);
  LayerCase layer_case = skewed_case();
  layer_case.shape.has_bias = true;
  layer_case.shape.gate_order = GateOrder::kUpGate;
  layer_case.shape.activation = {Activation::Kind::kClampedSwiGlu, 0.4f, 1.702f};
  layer_case.invalid_tokens = 5;
  layer_case.id_type = IdType::kInt64;
  expect_case(layer_case, 9);
}

TEST(MegaForwardRanks, LegalPlansOfAnyOriginGiveTheSameBits) {
  MF_NEEDS_GPUS(1);
  for (const int32_t block_rows : {128, 1, 17}) {
    SCOPED_TRACE("block_rows " + std::to_string(block_rows));
    const StepData data(skewed_case(block_rows), 10);
    ForwardRig rig(data);
    const Outputs expected = rig.step();
    ASSERT_LE(relative_error(expected, reference_y(data)), kTolerance);
    rig.set_plan(spread_plan(data, block_rows));
    EXPECT_EQ(rig.forward(), expected) << "spread";
    for (uint64_t seed = 1; seed <= gpu::by_size<uint64_t>(8, 1, 100); ++seed) {
      rig.set_plan(random_plan(data, block_rows, seed));
      EXPECT_EQ(rig.forward(), expected) << "random plan " << seed;
    }
  }
}

TEST(MegaForwardRanks, WeightsInPlaceGiveTheSameBits) {
  MF_NEEDS_GPUS(1);
  const StepData data(skewed_case(), 18);
  const Outputs expected = ForwardRig(data).step();
  ForwardRig rig(data, {.planner = PlannerKind::kMegaflux, .transfer = ReplicaTransfer::kInPlace});
  EXPECT_EQ(rig.step(), expected);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    rig.set_plan(random_plan(data, 128, seed));
    EXPECT_EQ(rig.forward(), expected) << "random plan " << seed;
  }
}

TEST(MegaForwardRanks, PlannersGiveTheSameBits) {
  MF_NEEDS_GPUS(1);
  const StepData data(skewed_case(), 11);
  const Outputs expected = ForwardRig(data).step();
  for (const PlannerKind planner : {PlannerKind::kMegaflux, PlannerKind::kPaper}) {
    EXPECT_EQ(ForwardRig(data, {.planner = planner}).step(), expected) << planner_name(planner);
  }
  const StepData rows(skewed_case(1), 11);
  EXPECT_EQ(ForwardRig(rows, {.planner = PlannerKind::kQuota}).step(), expected);
}

TEST(MegaForwardRanks, PoolsSmsAndLagDoNotShow) {
  MF_NEEDS_GPUS(1);
  const StepData data(skewed_case(), 12);
  const Outputs expected = ForwardRig(data, {.planner = PlannerKind::kMegaflux}).step();
  for (const Knobs& knobs :
       {Knobs{.num_sms = 1}, Knobs{.num_sms = 5, .lag_waves = 1}, Knobs{.pool_rows = 128},
        Knobs{.pool_rows = 640}, Knobs{.pool_rows = 1152, .num_sms = 3},
        Knobs{.pool_rows = 1 << 16, .lag_waves = 64}}) {
    Knobs with = knobs;
    with.planner = PlannerKind::kMegaflux;
    EXPECT_EQ(ForwardRig(data, with).step(), expected)
        << "C " << knobs.pool_rows << ", SMs " << knobs.num_sms << ", lag " << knobs.lag_waves;
  }
}

void expect_repeats(const StepData& data, const Knobs& knobs) {
  ForwardRig rig(data, knobs);
  const Outputs expected = rig.step();
  for (int repeat = 0; repeat < gpu::by_size(10, 2, 200); ++repeat) {
    rig.session().group().set_delay_fuzz(1 + repeat);
    ASSERT_EQ(rig.step(), expected) << "repeat " << repeat;
  }
}

TEST(MegaForwardRanks, RepeatsUnderDelays) {
  MF_NEEDS_GPUS(1);
  const StepData data(skewed_case(), 13);
  expect_repeats(data, {.planner = PlannerKind::kMegaflux});
  expect_repeats(data, {.planner = PlannerKind::kMegaflux, .pool_rows = 384, .num_sms = 4});
}

TEST(MegaForwardRanks, TokensThatLieInTheHeapAreNotCopied) {
  MF_NEEDS_GPUS(1);
  const StepData data(skewed_case(), 14);
  ForwardRig rig(data);
  const Outputs expected = rig.step();
  for (int32_t rank = 0; rank < data.num_ranks(); ++rank) {
    Bf16* const tokens = rig.session().tokens(rank);
    rig.upload(rank, rig.session().fields().tokens,
               std::span(reinterpret_cast<const Bf16*>(data.x[rank].bytes.data()),
                         data.x[rank].bytes.size() / sizeof(Bf16)));
    rig.tensors()[rank].x = tokens;
    rig.rank(rank).x.poison();
  }
  EXPECT_EQ(rig.step(), expected);
}

TEST(MegaForwardRanks, CapturedLaunchesTakeNewIds) {
  MF_NEEDS_GPUS(1);
  const StepData data(skewed_case(), 15);
  ForwardRig rig(data, {.num_devices = 1});
  const Outputs first = rig.step();
  const gpu::CapturedLaunch captured = rig.captured_step();
  const auto replay = [&] {
    for (int32_t rank = 0; rank < data.num_ranks(); ++rank) rig.rank(rank).y.poison();
    captured.replay();
    rig.session().group().synchronize();
    return rig.outputs();
  };
  EXPECT_EQ(replay(), first);
  const std::vector<std::byte> ids = rig.rank(0).ids.download();
  std::vector<std::byte> rotated = ids;  // by a token
  std::rotate(rotated.begin(), rotated.begin() + 3 * sizeof(int32_t), rotated.end());
  rig.rank(0).ids.upload(std::span<const std::byte>(rotated));
  const Outputs other = replay();
  EXPECT_NE(other, first);
  EXPECT_EQ(rig.step(), other);
  rig.rank(0).ids.upload(std::span<const std::byte>(ids));
  EXPECT_EQ(replay(), first);
}

TEST(MegaForwardRanks, TwoDevices) {
  MF_NEEDS_GPUS(2);
  const StepData data(skewed_case(), 16);
  const Outputs expected = ForwardRig(data).step();
  for (const PlannerKind planner : {PlannerKind::kFixed, PlannerKind::kMegaflux}) {
    for (const int64_t pool_rows : {0, 384}) {
      expect_repeats(data, {.planner = planner, .pool_rows = pool_rows, .num_devices = 2});
      ForwardRig rig(data, {.planner = planner, .pool_rows = pool_rows, .num_devices = 2});
      EXPECT_EQ(rig.step(), expected) << planner_name(planner) << ", C " << pool_rows;
    }
  }
}

// The caller's current device is not the session's, and cannot reach it.
TEST(MegaForwardRanks, AnotherDeviceIsCurrent) {
  MF_NEEDS_GPUS(2);
  const StepData data(skewed_case(), 20);
  const Outputs expected = ForwardRig(data).step();
  ForwardRig rig(data,
                 {.planner = PlannerKind::kMegaflux, .keeps_replicas = true, .first_device = 1});
  EXPECT_EQ(rig.step(), expected);
  MF_CUDA(cudaSetDevice(0));
  rig.session().recover();
  EXPECT_EQ(rig.step(), expected) << "slots hold nothing";
  MF_CUDA(cudaSetDevice(0));
  rig.set_plan(spread_plan(data, data.layer_case.block_rows));
  EXPECT_EQ(rig.forward(), expected);
  MF_CUDA(cudaSetDevice(0));
}

// A bad argument of the second device is found before the first one's launch waits for it.
TEST(MegaForwardRanks, BadArgumentsOfOneDeviceLeaveTheOthersSound) {
  MF_NEEDS_GPUS(2);
  const StepData data(skewed_case(), 19);
  ForwardRig rig(data, {.num_devices = 2});
  const Outputs expected = rig.step();
  std::vector<ForwardTensors> tensors = rig.tensors();
  tensors[2].routing.num_tokens = 100'000;
  EXPECT_THROW(rig.session().route(tensors), Error);
  EXPECT_THROW(rig.session().compute(tensors), Error);
  EXPECT_EQ(rig.step(), expected);
}

// Launches back to back, no look in between.
TEST(MegaForwardSoak, BackToBack) {
  MF_NEEDS_GPUS(1);
  const StepData data(skewed_case(), 17);
  for (const int32_t num_devices : {1, std::min(2, gpu::num_gpus())}) {
    ForwardRig rig(data, {.planner = PlannerKind::kMegaflux, .num_devices = num_devices});
    const Outputs expected = rig.step();
    for (int launch = 0; launch < 100'000; ++launch) rig.session().forward(rig.tensors());
    rig.session().group().synchronize();
    EXPECT_EQ(rig.outputs(), expected);
  }
}

}  // namespace
}  // namespace megaflux::test
