#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "megaflux/base/rng.h"

namespace megaflux {
namespace {

// First outputs of splitmix64 from seed 0, as published with the generator.
TEST(Rng, GoldenValues) {
  Rng rng(0);
  EXPECT_EQ(rng.next(), 0xe220a8397b1dcdafull);
  EXPECT_EQ(rng.next(), 0x6e789e6aa1b965f4ull);
  EXPECT_EQ(rng.next(), 0x06c45d188009454full);
}

TEST(Rng, EqualSeedsEqualStreams) {
  Rng a(77);
  Rng b(77);
  Rng c(78);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const uint64_t value = a.next();
    ASSERT_EQ(value, b.next());
    differs |= value != c.next();
  }
  EXPECT_TRUE(differs);
}

// Chi-square with bound - 1 degrees of freedom, 5 standard deviations wide.
TEST(Rng, BelowIsUniform) {
  for (const uint32_t bound : {2u, 3u, 7u, 64u, 100u}) {
    Rng rng(bound);
    std::vector<int> hits(bound, 0);
    constexpr int kDraws = 200000;
    for (int i = 0; i < kDraws; ++i) {
      const uint32_t value = rng.below(bound);
      ASSERT_LT(value, bound);
      ++hits[value];
    }
    double chi = 0;
    const double expected = static_cast<double>(kDraws) / bound;
    for (const int count : hits) chi += (count - expected) * (count - expected) / expected;
    const double freedom = bound - 1;
    EXPECT_LT(chi, freedom + 5 * std::sqrt(2 * freedom) + 5) << bound;
  }
}

// 3 * 2^30 values do not divide 2^32: without rejection the low third would come up twice as often.
TEST(Rng, BelowHasNoModuloBias) {
  constexpr uint32_t kBound = 3u << 30;
  Rng rng(5);
  std::array<int, 3> thirds{};
  constexpr int kDraws = 90000;
  for (int i = 0; i < kDraws; ++i) ++thirds[rng.below(kBound) >> 30];
  for (const int count : thirds) EXPECT_NEAR(count, kDraws / 3, 700);
}

TEST(Rng, BelowOneIsZeroAndTheLargestBoundIsReached) {
  Rng rng(9);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(rng.below(1), 0u);
  uint32_t most = 0;
  for (int i = 0; i < 1000; ++i) most = std::max(most, rng.below(0xffffffffu));
  EXPECT_GT(most, 0xff000000u);
}

TEST(Rng, UniformAndSymmetricRanges) {
  Rng rng(3);
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double value = rng.uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.005);
  std::set<bool> signs;
  for (int i = 0; i < 1000; ++i) {
    const float value = rng.symmetric(0.25f);
    ASSERT_GE(value, -0.25f);
    ASSERT_LT(value, 0.25f);
    signs.insert(value < 0);
  }
  EXPECT_EQ(signs.size(), 2u);
}

}  // namespace
}  // namespace megaflux
