#include <gtest/gtest.h>

#include <limits>

#include "megaflux/moe/layer_shape.h"
#include "moe/expect_error.h"

namespace megaflux {
namespace {

TEST(LayerShape, HeaderExample) {
  const LayerShape shape{.num_experts = 64, .topk = 6, .hidden = 2048, .inter = 1408};
  check_shape(shape);
  EXPECT_EQ(shape.w1_elements() + shape.w2_elements(), 8'650'752);
  EXPECT_EQ(shape.expert_bytes(), 17'301'504);
  EXPECT_EQ(shape.expert_gradient_bytes(), 34'603'008);
  EXPECT_EQ(shape.forward_flops_per_row(), 17'301'504);
}

TEST(LayerShape, BiasesTravelWithTheirExpert) {
  LayerShape shape{.num_experts = 4, .topk = 2, .hidden = 10, .inter = 6, .dtype = DType::kFp32};
  const int64_t bytes = shape.expert_bytes();
  const int64_t gradient_bytes = shape.expert_gradient_bytes();
  EXPECT_EQ(bytes, 3 * 10 * 6 * 4);
  shape.has_bias = true;
  EXPECT_EQ(shape.expert_bytes() - bytes, (2 * 6 + 10) * 4);
  EXPECT_EQ(shape.expert_gradient_bytes() - gradient_bytes, (2 * 6 + 10) * 4);
}

TEST(LayerShape, LargestShapeDoesNotOverflow) {
  const LayerShape shape{.num_experts = 4096, .topk = 64, .hidden = 65536, .inter = 65536};
  check_shape(shape);
  EXPECT_EQ(shape.expert_bytes(), (int64_t{1} << 32) * 3 * 2);
}

TEST(LayerShape, IC_22_EveryExtentOrTheLimit) {
  for (const int32_t experts : {1, 3, 10, 64, 96, 160, 384, 512, 896, 1024, 1025, 2048, 4096}) {
    for (const int32_t topk : {1, 2, 4, 6, 8, 9, 16, 22, 32, 33, 64}) {
      check_shape({.num_experts = experts, .topk = topk, .hidden = 16, .inter = 16});
    }
  }
}

TEST(LayerShape, BadInputNamesFieldValueAndLimit) {
  const LayerShape good{.num_experts = 8, .topk = 2, .hidden = 16, .inter = 16};
  const auto broken = [&](auto&& change) {
    return [&good, change] {
      LayerShape shape = good;
      change(shape);
      check_shape(shape);
    };
  };
  expect_bad_input(broken([](LayerShape& s) { s.num_experts = 0; }), {"num_experts: 0", "4096"});
  expect_bad_input(broken([](LayerShape& s) { s.num_experts = 4097; }), {"num_experts: 4097"});
  expect_bad_input(broken([](LayerShape& s) { s.topk = 0; }), {"topk: 0", "64"});
  expect_bad_input(broken([](LayerShape& s) { s.topk = 65; }), {"topk: 65", "64"});
  expect_bad_input(broken([](LayerShape& s) { s.hidden = -1; }), {"hidden: -1", "65536"});
  expect_bad_input(broken([](LayerShape& s) { s.inter = 65537; }), {"inter: 65537", "65536"});
  for (const float value : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    expect_bad_input(broken([value](LayerShape& s) {
                       s.activation = {.kind = Activation::Kind::kClampedSwiGlu, .limit = value};
                     }),
                     {"activation limit"});
    expect_bad_input(broken([value](LayerShape& s) {
                       s.activation = {.kind = Activation::Kind::kClampedSwiGlu, .alpha = value};
                     }),
                     {"activation alpha"});
  }
}

}  // namespace
}  // namespace megaflux
