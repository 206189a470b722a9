// Equality bit for bit: across plans, repeats, capacities, Z modes and packing policies.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "parity/compare.h"

namespace megaflux {
namespace {

class Bitwise : public testing::TestWithParam<LayerCase> {};

// y, dX and dp under every legal plan, whatever its granularity, fixed placement included.
TEST_P(Bitwise, TokensAreEqualUnderEveryPlan) {
  const StepData data(GetParam(), 21);
  CpuRig rig(data);
  const StepOutput fixed = rig.step(fixed_plan(data, 128));
  for (const int32_t block_rows : {1, 17, 128, 300}) {
    const StepOutput spread = rig.step(spread_plan(data, block_rows));
    EXPECT_EQ(token_difference(fixed, spread), "") << "spread, block_rows " << block_rows;
    const StepOutput random = rig.step(random_plan(data, block_rows, 31 + block_rows));
    EXPECT_EQ(token_difference(fixed, random), "") << "random, block_rows " << block_rows;
  }
}

TEST_P(Bitwise, GradientsRepeatForAPlan) {
  const StepData data(GetParam(), 22);
  const Plan plan = plan_of(data, 5);
  CpuRig first(data);
  CpuRig second(data);
  const StepOutput a = first.step(plan);
  const StepOutput b = first.step(plan);
  const StepOutput c = second.step(plan);
  EXPECT_EQ(token_difference(a, b) + gradient_difference(a, b), "") << "same rig";
  EXPECT_EQ(token_difference(a, c) + gradient_difference(a, c), "") << "another rig";
}

TEST_P(Bitwise, CapacityLagAndPackingChangeNothing) {
  const StepData data(GetParam(), 23);
  const Plan plan = plan_of(data, 5);
  const StepOutput large = CpuRig(data, {.pool_tiles = 64}).step(plan);
  for (const auto& [tiles, lag] : {std::pair{1, 0}, {2, 1}, {3, 2}, {5, 0}}) {
    const StepOutput small = CpuRig(data, {.pool_tiles = tiles, .fc2_lag_tiles = lag}).step(plan);
    EXPECT_EQ(token_difference(large, small) + gradient_difference(large, small), "")
        << tiles << " tiles, lag " << lag;
  }
  const StepOutput per_part = CpuRig(data, {.packing = WeightPacking::kPerPart}).step(plan);
  EXPECT_EQ(token_difference(large, per_part) + gradient_difference(large, per_part), "");
}

TEST_P(Bitwise, SavedAndRecomputedZAreEqual) {
  LayerCase layer_case = GetParam();
  layer_case.z = ZChoice::kSaved;
  const StepData data(layer_case, 24);
  const Plan plan = plan_of(data, 5);
  CpuRig rig(data);
  StepOutput saved, partly, recomputed;
  rig.forward(plan, ZChoice::kSaved, saved);
  rig.backward(GradientMode::kNewFp32, saved);
  rig.forward(plan, ZChoice::kPartly, partly);
  rig.backward(GradientMode::kNewFp32, partly);
  rig.forward(plan, ZChoice::kRecomputed, recomputed);
  rig.backward(GradientMode::kNewFp32, recomputed);
  EXPECT_EQ(token_difference(saved, partly) + gradient_difference(saved, partly), "");
  EXPECT_EQ(token_difference(saved, recomputed) + gradient_difference(saved, recomputed), "");
  int64_t rows = 0;
  for (const RankReport& rank : saved.backward) rows += rank.recomputed_z_rows;
  EXPECT_EQ(rows, 0);
  for (size_t rank = 0; rank < recomputed.backward.size(); ++rank) {
    EXPECT_EQ(recomputed.backward[rank].recomputed_z_rows,
              recomputed.backward[rank].tiles * int64_t{kTileRows});
  }
}

TEST_P(Bitwise, AFreshBackwardPlanKeepsTokenGradients) {
  const StepData data(GetParam(), 25);
  CpuRig rig(data);
  StepOutput same, fresh;
  rig.forward(plan_of(data, 5), ZChoice::kSaved, same);
  rig.backward(GradientMode::kNewFp32, same);
  const Plan other = random_plan(data, 17, 99);
  rig.forward(plan_of(data, 5), ZChoice::kSaved, fresh);
  rig.backward(GradientMode::kNewFp32, fresh, &other);
  EXPECT_EQ(token_difference(same, fresh), "");
}

INSTANTIATE_TEST_SUITE_P(Cases, Bitwise, testing::ValuesIn(case_table()),
                         [](const auto& named) { return named.param.name; });

// Random small problems under random legal plans against fixed placement.
RC_GTEST_PROP(BitwiseProperty, AnyPlanAnyShape, ()) {
  LayerCase c;
  c.name = "random";
  c.shape.num_experts = *rc::gen::inRange(1, 9);
  c.shape.topk = *rc::gen::inRange(1, 1 + std::min(4, c.shape.num_experts));
  c.shape.hidden = *rc::gen::inRange(1, 40);
  c.shape.inter = *rc::gen::inRange(1, 24);
  c.shape.dtype = *rc::gen::element(DType::kBf16, DType::kFp32);
  c.shape.has_bias = *rc::gen::arbitrary<bool>();
  c.tokens = *rc::gen::container<std::vector<int32_t>>(static_cast<size_t>(*rc::gen::inRange(1, 6)),
                                                       rc::gen::inRange(0, 90));
  c.route = *rc::gen::element(RouteKind::kUniform, RouteKind::kSkewed, RouteKind::kDuplicates,
                              RouteKind::kHoles);
  c.replica_slots = *rc::gen::inRange(0, 4);
  c.block_rows = *rc::gen::element(1, 3, 64, 128, 200);
  c.z = *rc::gen::element(ZChoice::kSaved, ZChoice::kPartly, ZChoice::kRecomputed);
  const auto seed = static_cast<uint64_t>(*rc::gen::inRange(0, 1 << 20));
  const StepData data(c, seed);
  CpuRig rig(data, {.pool_tiles = *rc::gen::inRange(2, 6)});
  const StepOutput fixed = rig.step(fixed_plan(data, c.block_rows));
  const StepOutput other = rig.step(random_plan(data, c.block_rows, seed));
  RC_ASSERT(token_difference(fixed, other).empty());
}

}  // namespace
}  // namespace megaflux
