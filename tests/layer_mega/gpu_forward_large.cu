// Sizes whose offsets pass 2^31 elements and 2^32 bytes. The tokens repeat with a period: every
// period of the result has the bits of a run over one period.
#include "layer_mega/forward_rig.cuh"

namespace megaflux::test {
namespace {

constexpr int32_t kPeriod = 1024;

LayerCase period_case() {
  return case_of(shape_of(6, 4, 4096, 64), kPeriod, RouteKind::kSkewed);
}

// `count` copies of what a device array holds.
template <typename T>
gpu::DeviceArray<T> repeated(const gpu::DeviceArray<T>& once, int64_t count) {
  gpu::DeviceArray<T> all(once.count() * count);
  for (int64_t i = 0; i < count; ++i) {
    MF_CUDA(cudaMemcpy(all.data() + i * once.count(), once.data(), once.bytes(),
                       cudaMemcpyDeviceToDevice));
  }
  MF_CUDA(cudaDeviceSynchronize());
  return all;
}

// Tokens 0 ... kPeriod - 1 again and again.
void expect_periods(int32_t num_tokens, int64_t pool_rows) {
  const StepData data(period_case(), 31);
  ForwardRig once(data);
  const Outputs expected = once.step();
  ASSERT_LE(relative_error(expected, reference_y(data)), kTolerance);
  const int64_t periods = num_tokens / kPeriod;
  const auto x = repeated(once.rank(0).x, periods);
  const auto ids = repeated(once.rank(0).ids, periods);
  const auto weights = repeated(once.rank(0).weights, periods);
  gpu::DeviceArray<uint16_t> y(expected[0].size() * periods);
  DeviceSessionConfig config;
  config.shape = data.shape();
  config.max_tokens = num_tokens;
  config.plan.planner = PlannerKind::kFixed;
  config.plan.dims = {.num_experts = data.shape().num_experts, .num_ranks = 1};
  config.pool_rows = pool_rows;
  DeviceSession session(config, [](const Layout& layout) {
    return std::make_unique<LocalGroup>(LocalConfig{.device_of = {0}}, layout);
  });
  session.set_weights(0, std::vector{once.rank(0).owned(data, 0)});
  const ForwardTensors tensors = {.x = x.data(),
                                  .y = y.data(),
                                  .routing = {.num_tokens = num_tokens,
                                              .topk = data.shape().topk,
                                              .topk_ids = ids.data(),
                                              .topk_weights = weights.data()}};
  session.forward(std::span(&tensors, 1));
  session.group().synchronize();
  std::vector<uint16_t> period(expected[0].size());
  for (int64_t i = 0; i < periods; ++i) {
    MF_CUDA(cudaMemcpy(period.data(), y.data() + i * period.size(),
                       period.size() * sizeof(uint16_t), cudaMemcpyDeviceToHost));
    ASSERT_EQ(period, expected[0]) << "tokens from " << i * kPeriod;
  }
}

TEST(MegaForwardLarge, OffsetsBeyondTwoToThe31) {
  MF_NEEDS_GPUS(1);
  if (gpu::size() == gpu::Size::kSanitize) GTEST_SKIP() << "too long under a sanitizer";
  constexpr int32_t kTokens = 131'072 + 8 * kPeriod;
  static_assert(int64_t{kTokens} * 4 * 4096 > int64_t{1} << 31);
  expect_periods(kTokens, 0);
  expect_periods(kTokens, 1 << 16);  // a ring of 512 tiles
}

}  // namespace
}  // namespace megaflux::test
