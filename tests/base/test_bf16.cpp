#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "megaflux/base/bf16.h"

namespace megaflux {
namespace {

Bf16 of_bits(uint32_t bits) {
  Bf16 value;
  value.bits = static_cast<uint16_t>(bits);
  return value;
}

float next_up(float value) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) + 1);
}

TEST(Bf16, EveryValueSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto value = static_cast<float>(of_bits(bits));
    const bool is_nan = (bits & 0x7fff) > 0x7f80;
    ASSERT_EQ(std::isnan(value), is_nan) << bits;
    // A signalling NaN comes back quiet, every other value as it was.
    ASSERT_EQ(Bf16(value).bits, is_nan ? bits | 0x40 : bits);
  }
}

TEST(Bf16, RoundsToNearestAndTiesToEven) {
  // All pairs of finite neighbours of one sign; the last one rounds into infinity.
  for (const uint32_t sign : {0u, 0x8000u}) {
    for (uint32_t low = 0; low < 0x7f80; ++low) {
      const uint32_t bits = sign | low;
      const uint32_t middle = (bits << 16) | 0x8000;
      const uint32_t even = (low & 1) == 0 ? bits : bits + 1;
      ASSERT_EQ(Bf16(std::bit_cast<float>(middle)).bits, even) << bits;
      ASSERT_EQ(Bf16(std::bit_cast<float>(middle - 1)).bits, bits);
      ASSERT_EQ(Bf16(std::bit_cast<float>(middle + 1)).bits, bits + 1);
    }
  }
}

TEST(Bf16, KnownValues) {
  EXPECT_EQ(Bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(Bf16(-2.0f).bits, 0xc000);
  EXPECT_EQ(Bf16(3.14159274f).bits, 0x4049);
  EXPECT_EQ(Bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(Bf16(-0.0f).bits, 0x8000);
  // The NaN with the lowest payload would become infinity if its payload were cut off.
  EXPECT_TRUE(std::isnan(round_to_bf16(std::bit_cast<float>(0x7f800001u))));
  EXPECT_EQ(round_to_bf16(1.00390625f), 1.0f);
  EXPECT_EQ(round_to_bf16(next_up(1.00390625f)), 1.0078125f);
}

}  // namespace
}  // namespace megaflux
