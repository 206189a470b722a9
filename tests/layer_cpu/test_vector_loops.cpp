// The element-wise loops against double arithmetic, and their independence of position.
#include "megaflux/layer/cpu/vector_loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "megaflux/base/rng.h"
#include "megaflux/layer/reference/expert_rows.h"

namespace megaflux {
namespace {

constexpr Activation kClamped = {Activation::Kind::kClampedSwiGlu, 7.0f, 1.702f};

struct Row {
  explicit Row(int64_t count)
      : gate(count), up(count), da(count), d_gate(count), d_up(count), pa(count), a(count) {
    Rng rng(3);
    for (int64_t i = 0; i < count; ++i) {
      gate[i] = rng.symmetric(i % 5 == 0 ? 90.0f : 9.0f);
      up[i] = rng.symmetric(9.0f);
      da[i] = rng.symmetric(1.0f);
    }
  }
  void run(const Activation& activation, float p) {
    const ActivationGradient row = {.gate = gate.data(),
                                    .up = up.data(),
                                    .da = da.data(),
                                    .p = p,
                                    .d_gate = d_gate.data(),
                                    .d_up = d_up.data(),
                                    .pa = pa.data(),
                                    .a = a.data()};
    activate_backward(activation, row, static_cast<int64_t>(gate.size()));
  }
  std::vector<float> gate, up, da, d_gate, d_up, pa, a;
};

void expect_close(float got, double want, const char* what) {
  EXPECT_NEAR(got, want, 4e-6 * std::fabs(want) + 1e-6) << what;
}

TEST(VectorLoops, ActivationAndItsGradientMatchTheReference) {
  for (const Activation& activation : {Activation{}, kClamped}) {
    Row row(1003);
    row.run(activation, 0.7f);
    std::vector<float> forward(row.gate.size());
    activate(activation, row.gate.data(), row.up.data(), forward.data(), 1003);
    for (size_t i = 0; i < row.gate.size(); ++i) {
      // `activate` is also the name of the reference's scalar form.
      const ActivationPoint point = activate(activation, double{row.gate[i]}, double{row.up[i]});
      expect_close(forward[i], point.value, "A");
      expect_close(row.a[i], point.value, "A in backward");
      expect_close(row.pa[i], double{0.7f} * point.value, "p A");
      expect_close(row.d_gate[i], double{0.7f} * row.da[i] * point.d_gate, "dG");
      expect_close(row.d_up[i], double{0.7f} * row.da[i] * point.d_up, "dU");
    }
  }
}

TEST(VectorLoops, ForwardAndBackwardComputeTheSameBitsOfA) {
  Row row(77);
  row.run(Activation{}, 1.0f);
  std::vector<float> forward(77);
  activate(Activation{}, row.gate.data(), row.up.data(), forward.data(), 77);
  EXPECT_EQ(std::memcmp(forward.data(), row.a.data(), 77 * sizeof(float)), 0);
}

TEST(VectorLoops, ResultsDoNotDependOnThePosition) {
  Row row(64);
  std::vector<float> together(64);
  activate(Activation{}, row.gate.data(), row.up.data(), together.data(), 64);
  for (int64_t i = 0; i < 64; ++i) {
    float alone = 0;
    activate(Activation{}, &row.gate[i], &row.up[i], &alone, 1);
    EXPECT_EQ(alone, together[i]) << i;
  }
}

TEST(VectorLoops, NanStaysNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float a = 0;
  activate(Activation{}, &nan, &nan, &a, 1);
  EXPECT_TRUE(std::isnan(a));
}

TEST(VectorLoops, AddScaledIsFused) {
  // 1 + 2^-12 squared needs 25 bits: a product that is rounded first loses the 2^-24.
  const float value = 1.0f + 0x1p-12f;
  std::vector<float> sum(19, -1.0f);
  const std::vector<float> in(19, value);
  add_scaled(value, in.data(), sum.data(), 19);
  for (const float got : sum) EXPECT_EQ(got, 0x1p-11f + 0x1p-24f);
}

TEST(VectorLoops, NarrowAndWidenRoundOnce) {
  const std::vector<float> in = {1.00390625f, 1.01171875f, -0.0f, 3.0e38f};
  std::vector<Bf16> narrow_values(4);
  std::vector<float> back(4);
  narrow(in.data(), narrow_values.data(), 4);
  widen(narrow_values.data(), back.data(), 4);
  EXPECT_EQ(back[0], 1.0f) << "tie to even, down";
  EXPECT_EQ(back[1], 1.015625f) << "tie to even, up";
  EXPECT_TRUE(std::signbit(back[2]));
  EXPECT_EQ(back[3], round_to_bf16(3.0e38f));
}

TEST(VectorLoops, DotMatchesDoubles) {
  Row row(1003);
  double want = 0;
  for (size_t i = 0; i < 1003; ++i) want += double{row.da[i]} * row.up[i];
  EXPECT_NEAR(dot(row.da.data(), row.up.data(), 1003), want, 1e-3);
}

}  // namespace
}  // namespace megaflux
