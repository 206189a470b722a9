// bfloat16 as the host sees it: the upper half of an IEEE binary32.
#pragma once

#include <bit>
#include <cstdint>

namespace megaflux {

struct Bf16 {
  uint16_t bits = 0;

  Bf16() = default;
  // Rounds to nearest, ties to even; NaN stays NaN.
  explicit constexpr Bf16(float value) {
    const uint32_t raw = std::bit_cast<uint32_t>(value);
    const bool is_nan = (raw & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>(is_nan ? (raw >> 16) | 0x40u
                                        : (raw + 0x7fffu + ((raw >> 16) & 1u)) >> 16);
  }
  explicit constexpr operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  friend constexpr bool operator==(Bf16, Bf16) = default;
};
static_assert(sizeof(Bf16) == 2);

// The fp32 value of `value` after one rounding to bf16.
constexpr float round_to_bf16(float value) {
  return static_cast<float>(Bf16(value));
}

}  // namespace megaflux
