// The forward of one rank against the reference in fp64, over shapes, routes and conventions.
#include "layer_mega/forward_rig.cuh"

namespace megaflux::test {
namespace {

void expect_case(const LayerCase& layer_case, uint64_t seed = 1) {
  const StepData data(layer_case, seed);
  ForwardRig rig(data);
  EXPECT_LE(relative_error(rig.step(), reference_y(data)), kTolerance);
}

// Sizes that a sanitizer can bear.
int32_t few(int32_t tokens) {
  return gpu::by_size(tokens, std::min(tokens, 40), tokens);
}

TEST(MegaForward, OneTokenOneExpert) {
  MF_NEEDS_GPUS(1);
  expect_case(case_of(shape_of(1, 1, 64, 64), 1));
}

TEST(MegaForward, HiddenAndInterOfAnyMultiple) {
  MF_NEEDS_GPUS(1);
  for (const int32_t hidden : {64, 256, 320, 576}) {
    for (const int32_t inter : {64, 128, 192, 640}) {
      SCOPED_TRACE("H " + std::to_string(hidden) + ", I " + std::to_string(inter));
      expect_case(case_of(shape_of(4, 2, hidden, inter), few(150)), hidden + inter);
    }
  }
}

TEST(MegaForward, TokensOfAnyNumber) {
  MF_NEEDS_GPUS(1);
  for (const int32_t tokens : {0, 1, 2, 7, 31, 64, 127, 128, 129, 256, 515}) {
    SCOPED_TRACE("T " + std::to_string(tokens));
    expect_case(case_of(shape_of(6, 2, 128, 128), few(tokens)), tokens + 1);
  }
}

TEST(MegaForward, RoutesOfEveryKind) {
  MF_NEEDS_GPUS(1);
  for (const RouteKind route : {RouteKind::kUniform, RouteKind::kSkewed, RouteKind::kOneHot,
                                RouteKind::kDuplicates, RouteKind::kHoles, RouteKind::kNone}) {
    SCOPED_TRACE("route " + std::to_string(static_cast<int>(route)));
    expect_case(case_of(shape_of(8, 4, 192, 128), few(300), route), 20);
  }
}

TEST(MegaForward, BothGateOrders_IC_26) {
  MF_NEEDS_GPUS(1);
  LayerShape shape = shape_of(4, 2, 128, 192);
  shape.gate_order = GateOrder::kUpGate;
  expect_case(case_of(shape, few(200)), 5);
}

TEST(MegaForward, BiasesClampAndAlpha) {
  MF_NEEDS_GPUS(1);
  for (const GateOrder order : {GateOrder::kGateUp, GateOrder::kUpGate}) {
    LayerShape shape = shape_of(5, 4, 192, 320);
    shape.gate_order = order;
    shape.has_bias = true;
    expect_case(case_of(shape, few(170)), 6);
    shape.activation = {Activation::Kind::kClampedSwiGlu, 0.4f, 1.702f};
    expect_case(case_of(shape, few(170)), 7);
    shape.has_bias = false;
    expect_case(case_of(shape, few(170)), 8);
  }
}

TEST(MegaForward, IdsOfEveryTypeAndTokensThatAreNotValid_IC_13_IC_61) {
  MF_NEEDS_GPUS(1);
  for (const IdType type : {IdType::kInt16, IdType::kInt32, IdType::kInt64}) {
    LayerCase layer_case = case_of(shape_of(8, 3, 128, 128), few(140), RouteKind::kHoles);
    layer_case.id_type = type;
    expect_case(layer_case, 9);
    layer_case.invalid_tokens = 17;
    expect_case(layer_case, 10);
  }
}

TEST(MegaForward, ManyExpertsAndWideTopk) {
  MF_NEEDS_GPUS(1);
  expect_case(case_of(shape_of(gpu::by_size(1024, 96, 1024), 64, 64, 64), few(60)), 11);
  expect_case(case_of(shape_of(257, 33, 64, 128), few(100), RouteKind::kDuplicates), 12);
}

TEST(MegaForward, DecodeSizes) {
  MF_NEEDS_GPUS(1);
  for (const int32_t tokens : {1, 4, 16, 64, 256}) {
    SCOPED_TRACE("T " + std::to_string(tokens));
    expect_case(case_of(shape_of(gpu::by_size(64, 8, 64), 8, 256, 256), few(tokens)), tokens);
  }
}

TEST(MegaForward, DeepAndWide) {
  MF_NEEDS_GPUS(1);
  if (gpu::size() == gpu::Size::kSanitize) GTEST_SKIP() << "too long under a sanitizer";
  expect_case(case_of(shape_of(4, 2, 2048, 768), 600, RouteKind::kSkewed), 13);
}

}  // namespace
}  // namespace megaflux::test
