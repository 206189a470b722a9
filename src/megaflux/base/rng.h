// Random numbers that are the same on every machine and compiler (std:: distributions are not).
#pragma once

#include <cstdint>

#include "megaflux/base/hash.h"

namespace megaflux {

// splitmix64: 64 bits of state, every seed is good, and streams with different seeds are
// independent enough for test data and route families.
class Rng {
 public:
  explicit constexpr Rng(uint64_t seed) : state_(seed) {}

  constexpr uint64_t next() { return mix64(state_ += 0x9e3779b97f4a7c15ull); }

  // Uniform in [0, bound), bound >= 1, without modulo bias (multiply and reject, Lemire 2019).
  constexpr uint32_t below(uint32_t bound) {
    const uint32_t floor = static_cast<uint32_t>(-bound) % bound;
    for (;;) {
      const uint64_t product = (next() >> 32) * bound;
      if (static_cast<uint32_t>(product) >= floor) return static_cast<uint32_t>(product >> 32);
    }
  }

  // Uniform in [0, 1) with 53 random bits.
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // Uniform in [-scale, scale), exact in fp32.
  constexpr float symmetric(float scale) {
    return scale * (static_cast<float>(next() >> 40) * 0x1p-23f - 1.0f);
  }

 private:
  uint64_t state_;
};

}  // namespace megaflux
