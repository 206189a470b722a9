// Random delays around every signal change no bit: nothing is read before its signal, and nothing
// is overwritten while it is read. Memory starts as NaN, so what is read too early shows.
#include <gtest/gtest.h>

#include "parity/compare.h"

namespace megaflux {
namespace {

// Ranks 1 to 3 own nothing that has rows: all they compute waits for weights on the way.
LayerCase layer_case(DType dtype) {
  LayerCase c;
  c.name = "delays";
  c.shape = {.num_experts = 16, .topk = 2, .hidden = 40, .inter = 24, .dtype = dtype};
  c.shape.has_bias = true;
  c.tokens = {100, 140, 60, 0};
  c.route = RouteKind::kAllToRank0;
  c.replica_slots = 4;
  c.block_rows = 8;
  return c;
}

TEST(Delays, ChangeNoBit) {
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    const StepData data(layer_case(dtype), 95);
    const Plan spread = spread_plan(data, 8);
    const Plan fixed = fixed_plan(data, 8);
    const StepOutput calm = CpuRig(data).step(spread);
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      const int32_t lag = static_cast<int32_t>(seed % 2);
      CpuRig rig(data, {.pool_tiles = 1 + lag, .fc2_lag_tiles = lag});
      rig.group().set_delay_fuzz(seed);
      // Other plans between leave other experts in the slots.
      for (const Plan& plan : {spread, random_plan(data, 8, seed), fixed, spread}) {
        const StepOutput out = rig.step(plan);
        ASSERT_EQ(token_difference(calm, out), "") << "seed " << seed;
        if (plan == spread) {
          ASSERT_EQ(gradient_difference(calm, out), "") << "seed " << seed;
        }
      }
    }
  }
}

}  // namespace
}  // namespace megaflux
