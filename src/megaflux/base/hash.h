// The 64-bit hash of plans, configurations and residency tables.
//
// Each 32-bit word is mixed with its position and the mixed words are *summed*, so one GPU block
// can hash a plan with a single reduction, in any order, and get the bytes the host gets. Not
// cryptographic.
#pragma once

#include <cstdint>
#include <span>

#include "megaflux/base/math.h"

namespace megaflux {

// The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection of 64-bit words.
MF_HOST_DEVICE constexpr uint64_t mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// The contribution of `word` at position `index`; a hash is mix64 of the sum of all contributions.
MF_HOST_DEVICE constexpr uint64_t hash_word(uint32_t word, uint64_t index) {
  return mix64((index + 1) * 0x9e3779b97f4a7c15ull ^ word);
}

// A running hash over 32-bit words; equal word sequences give equal values on every machine.
class Hasher {
 public:
  void add(uint32_t word) { sum_ += hash_word(word, count_++); }
  void add64(uint64_t value) {
    add(static_cast<uint32_t>(value));
    add(static_cast<uint32_t>(value >> 32));
  }
  // Adds the length first, so that ({a}, {}) and ({}, {a}) differ.
  template <typename Int>
  void add_span(std::span<const Int> values) {
    add64(values.size());
    for (const Int value : values) add(static_cast<uint32_t>(value));
  }
  uint64_t value() const { return mix64(sum_ ^ count_); }

 private:
  uint64_t sum_ = 0;
  uint64_t count_ = 0;
};

}  // namespace megaflux
