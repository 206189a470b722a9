// Where weight gradients go: new fp32 or bf16 buffers, or main_grad; and what stays exactly zero.
#include <gtest/gtest.h>

#include "megaflux/base/bf16.h"
#include "parity/compare.h"

namespace megaflux {
namespace {

StepOutput run_mode(CpuRig& rig, const Plan& plan, GradientMode mode) {
  StepOutput out;
  rig.forward(plan, ZChoice::kSaved, out);
  rig.backward(mode, out);
  return out;
}

class GradientModes : public testing::TestWithParam<const char*> {};

TEST_P(GradientModes, Bf16IsTheRoundedFp32) {
  const StepData data(case_named(GetParam()), 81);
  const Plan plan = plan_of(data, 5);
  CpuRig rig(data);
  const StepOutput fp32 = run_mode(rig, plan, GradientMode::kNewFp32);
  const StepOutput bf16 = run_mode(rig, plan, GradientMode::kNewBf16);
  for (int32_t rank = 0; rank < data.num_ranks(); ++rank) {
    for (int64_t i = 0; i < fp32.w1[rank].size(); ++i) {
      ASSERT_EQ(bf16.w1[rank].at(i), round_to_bf16(static_cast<float>(fp32.w1[rank].at(i))));
    }
    for (int64_t i = 0; i < fp32.w2[rank].size(); ++i) {
      ASSERT_EQ(bf16.w2[rank].at(i), round_to_bf16(static_cast<float>(fp32.w2[rank].at(i))));
    }
    EXPECT_EQ(bf16.b1[rank], fp32.b1[rank]) << "biases stay fp32";
    EXPECT_EQ(bf16.b2[rank], fp32.b2[rank]);
  }
}

TEST_P(GradientModes, MainGradGetsOneAddition) {
  const StepData data(case_named(GetParam()), 82);
  const Plan plan = plan_of(data, 5);
  CpuRig rig(data);
  const StepOutput fp32 = run_mode(rig, plan, GradientMode::kNewFp32);
  rig.set_main_grad(0.37f);
  const StepOutput added = run_mode(rig, plan, GradientMode::kAddToMain);
  for (int32_t rank = 0; rank < data.num_ranks(); ++rank) {
    for (int64_t i = 0; i < fp32.w1[rank].size(); ++i) {
      ASSERT_EQ(static_cast<float>(added.w1[rank].at(i)),
                0.37f + static_cast<float>(fp32.w1[rank].at(i)));
    }
    for (size_t i = 0; i < fp32.b2[rank].size(); ++i) {
      ASSERT_EQ(added.b2[rank][i], 0.37f + fp32.b2[rank][i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GradientModes,
                         testing::Values("gpt_oss_like", "eight_ranks", "one_hot", "small_pool",
                                         "two_ranks_fp32"));

// IC_17: memory poisoned with NaN, two backward passes in a row, far more experts than rows.
TEST(GradientModes, IC_17_ExpertsWithoutRowsGetExactlyZeroOrStayUntouched) {
  LayerCase c;
  c.name = "IC_17";
  c.shape = {.num_experts = 64, .topk = 1, .hidden = 12, .inter = 8, .has_bias = true};
  c.tokens = {8, 8};
  const StepData data(c, 83);
  const LoadTable loads = data.loads();
  const Plan plan = random_plan(data, 128, 3);
  CpuRig rig(data);
  run_mode(rig, plan, GradientMode::kNewFp32);
  const StepOutput fresh = run_mode(rig, plan, GradientMode::kNewFp32);
  rig.set_main_grad(-2.5f);
  const StepOutput added = run_mode(rig, plan, GradientMode::kAddToMain);
  int32_t without_rows = 0;
  for (int32_t e = 0; e < 64; ++e) {
    if (loads.totals()[e] > 0) continue;
    ++without_rows;
    const int32_t owner = data.owner_of[e];
    const int64_t first = (e % 32) * data.shape().w1_elements();
    for (int64_t i = 0; i < data.shape().w1_elements(); ++i) {
      ASSERT_EQ(fresh.w1[owner].at(first + i), 0.0) << "expert " << e;
      ASSERT_EQ(added.w1[owner].at(first + i), -2.5) << "expert " << e;
    }
  }
  EXPECT_GT(without_rows, 40);
}

// IC_16: a rank whose experts get nothing still takes part, and its gradients exist and are zero.
TEST(GradientModes, IC_16_RankWithoutRowsHasZeroGradients) {
  const StepData data(case_named("all_to_rank_0"), 84);
  CpuRig rig(data);
  const StepOutput out = run_mode(rig, fixed_plan(data, 128), GradientMode::kNewFp32);
  for (int32_t rank = 1; rank < data.num_ranks(); ++rank) {
    EXPECT_EQ(out.backward[rank].rows, 0);
    for (int64_t i = 0; i < out.w1[rank].size(); ++i) ASSERT_EQ(out.w1[rank].at(i), 0.0);
    for (int64_t i = 0; i < out.w2[rank].size(); ++i) ASSERT_EQ(out.w2[rank].at(i), 0.0);
  }
}

}  // namespace
}  // namespace megaflux
