// What must not show in a result shows in no bit of it: order of parts, number of SMs, lag, pools
// that are rings, delays, repeats, captured launches. And y is, bit for bit, what its definition
// makes of the results.
#include "layer_mega/forward_rig.cuh"
#include "megaflux/base/rng.h"

namespace megaflux::test {
namespace {

LayerCase plain_case() {
  const int32_t tokens = gpu::by_size(700, 60, 700);
  return case_of(shape_of(6, 3, 320, 192), tokens, RouteKind::kSkewed);
}

// The parts in another order, as tiles of the list.
void shuffle_parts(ForwardRig& rig, uint64_t seed) {
  const DeviceHeadFields& fields = rig.session().head_fields();
  const WorkListHeader header = rig.download(0, fields.work)[0];
  std::vector<Part> parts = rig.download(0, fields.parts);
  Rng rng(seed);
  for (int32_t i = header.num_parts; i > 1; --i) {
    std::swap(parts[i - 1], parts[rng.below(static_cast<uint32_t>(i))]);
  }
  int32_t tile = 0;
  for (int32_t i = 0; i < header.num_parts; ++i) {
    parts[i].first_tile = tile;
    tile += parts[i].num_tiles;
  }
  rig.upload(0, fields.parts, std::span<const Part>(parts));
}

TEST(MegaForwardBits, OrderOfPartsSmsLagAndPool) {
  MF_NEEDS_GPUS(1);
  const StepData data(plain_case(), 3);
  ForwardRig plain(data);
  const Outputs expected = plain.step();
  ASSERT_LE(relative_error(expected, reference_y(data)), kTolerance);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    shuffle_parts(plain, seed);
    EXPECT_EQ(plain.forward(), expected) << "order " << seed;
  }
  for (const Knobs& knobs :
       {Knobs{.num_sms = 1}, Knobs{.num_sms = 7, .lag_waves = 1}, Knobs{.lag_waves = 64},
        Knobs{.pool_rows = 128}, Knobs{.pool_rows = 256}, Knobs{.pool_rows = 640},
        Knobs{.pool_rows = 1152, .num_sms = 3}, Knobs{.pool_rows = 1 << 20}}) {
    ForwardRig rig(data, knobs);
    EXPECT_EQ(rig.step(), expected)
        << "C " << knobs.pool_rows << ", SMs " << knobs.num_sms << ", lag " << knobs.lag_waves;
  }
}

TEST(MegaForwardBits, RepeatsUnderDelays) {
  MF_NEEDS_GPUS(1);
  const StepData data(plain_case(), 4);
  for (const int64_t pool_rows : {int64_t{0}, int64_t{512}}) {
    ForwardRig rig(data, {.pool_rows = pool_rows});
    const Outputs expected = rig.step();
    for (int repeat = 0; repeat < gpu::by_size(12, 2, 200); ++repeat) {
      rig.session().group().set_delay_fuzz(1 + repeat);
      EXPECT_EQ(rig.forward(), expected) << "repeat " << repeat;
      if (HasFailure()) return;
    }
  }
}

// Looks at every element of y.
void expect_ordered_sums(const StepData& data) {
  ForwardRig rig(data);
  const std::vector<uint16_t> y = rig.step()[0];
  const auto results = rig.download(0, rig.session().fields().results);
  const RoutingView& routing = data.routing[0];
  const int32_t hidden = data.shape().hidden;
  for (int32_t token = 0; token < routing.num_tokens; ++token) {
    for (int32_t column = 0; column < hidden; ++column) {
      float sum = 0;
      for (int32_t k = 0; k < routing.topk; ++k) {
        const int64_t pair = int64_t{token} * routing.topk + k;
        if (routing.expert_at(token, k) < 0) continue;
        const auto o = static_cast<float>(results[pair * hidden + column]);
        sum = std::fma(data.topk_weights[0][pair], o, sum);
      }
      ASSERT_EQ(y[int64_t{token} * hidden + column], Bf16(sum).bits) << token << " " << column;
    }
  }
}

TEST(MegaForwardBits, YIsTheOrderedSumOfTheResults) {
  MF_NEEDS_GPUS(1);
  expect_ordered_sums(StepData(case_of(shape_of(8, 8, 128, 64), 50, RouteKind::kHoles), 5));
  // One expert eight times, and weights that cancel: another order, or a product that is rounded
  // before it is added, shows in every element.
  StepData data(case_of(shape_of(1, 8, 1088, 64), 30, RouteKind::kDuplicates), 6);
  constexpr float kWeights[] = {3e7f, 1.3f, -3e7f, 0.7f, 5e6f, -0.9f, -5e6f, 0.4f};
  for (size_t i = 0; i < data.topk_weights[0].size(); ++i) {
    data.topk_weights[0][i] = kWeights[i % 8];
  }
  expect_ordered_sums(data);
}

TEST(MegaForwardBits, TokensBehindTheValidOnesAreZeros) {
  MF_NEEDS_GPUS(1);
  const StepData data(case_of(shape_of(4, 2, 128, 64), 60), 8);
  ForwardRig rig(data);
  const Outputs all = rig.step();
  for (const int32_t num_valid : {59, 13, 0}) {
    rig.limit_tokens(num_valid);  // the ids behind it are experts
    Outputs expected = all;
    std::fill(expected[0].begin() + num_valid * 128, expected[0].end(), uint16_t{0});
    EXPECT_EQ(rig.step(), expected) << num_valid;
  }
}

TEST(MegaForwardBits, CapturedLaunchesTakeNewIds_IC_32) {
  MF_NEEDS_GPUS(1);
  const LayerCase layer_case = plain_case();
  const StepData data(layer_case, 6);
  ForwardRig rig(data);
  const Outputs first = rig.step();
  const gpu::CapturedLaunch captured = rig.captured_step();
  const std::vector<std::byte> ids = rig.rank(0).ids.download();
  std::vector<std::byte> reversed(ids.size());
  const size_t row = layer_case.shape.topk * sizeof(int32_t);  // the last token first
  for (size_t at = 0; at < ids.size(); at += row) {
    std::copy_n(ids.begin() + at, row, reversed.end() - at - row);
  }
  const auto replay = [&](const std::vector<std::byte>& with) {
    rig.rank(0).ids.upload(std::span<const std::byte>(with));
    rig.rank(0).y.poison();
    captured.replay();
    rig.session().group().synchronize();
    return rig.outputs();
  };
  const Outputs other = replay(reversed);
  EXPECT_EQ(replay(ids), first);
  EXPECT_NE(other, first);
  rig.rank(0).ids.upload(std::span<const std::byte>(reversed));
  EXPECT_EQ(rig.step(), other);
}

}  // namespace
}  // namespace megaflux::test
