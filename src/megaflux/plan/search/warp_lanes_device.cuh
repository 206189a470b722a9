// WarpLanes: the 32 threads of a warp as lanes of one search (lanes.h). Lane l has ranks l, l + 32,
// ... at hand in registers; memory holds every rank's value as well, for lanes that ask for
// others'.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "megaflux/plan/search/lanes.h"

namespace megaflux {

inline constexpr uint32_t kWholeWarp = 0xffffffffu;

// The least and the largest of 64-bit numbers, by their halves.
__device__ inline int64_t warp_max(int64_t value) {
  const auto high = static_cast<int32_t>(value >> 32);
  const int32_t most = __reduce_max_sync(kWholeWarp, high);
  const uint32_t low = high == most ? static_cast<uint32_t>(value) : 0;
  return static_cast<int64_t>(most) << 32 | __reduce_max_sync(kWholeWarp, low);
}
__device__ inline int64_t warp_min(int64_t value) {
  const auto high = static_cast<int32_t>(value >> 32);
  const int32_t least = __reduce_min_sync(kWholeWarp, high);
  const uint32_t low = high == least ? static_cast<uint32_t>(value) : 0xffffffffu;
  return static_cast<int64_t>(least) << 32 | __reduce_min_sync(kWholeWarp, low);
}
// Sum modulo 2^64, from four sums of 16 bits, which do not wait for each other.
__device__ inline uint64_t warp_sum(uint64_t value) {
  uint64_t sum = 0;
  for (int32_t shift = 0; shift < 64; shift += 16) {
    const auto part = static_cast<uint32_t>(value >> shift & 0xffff);
    sum += static_cast<uint64_t>(__reduce_add_sync(kWholeWarp, part)) << shift;
  }
  return sum;
}

// kRanksPerLane: ranks of a domain / 32, rounded up. Number: int32_t for problems below 2^20 blocks
// (lambda included), else int64_t. kUniform: no rank has other work or another speed. kCosts: the
// objective may be predicted time, whose arithmetic takes registers and instructions. kPlain:
// lanes.h; what they need not ask is not in their code, which is fetched faster.
template <int32_t kRanksPerLane, typename Number, bool kUniform, bool kCosts, bool kPlain>
struct WarpLanes : Keys<Number, 10> {
  using Key = Number;
  static constexpr int32_t kCount = 32;
  static constexpr bool kIsUniform = kUniform;
  static constexpr bool kIsPlain = kPlain;
  static constexpr bool kHasCosts = kCosts;
  static constexpr int32_t kMaxRanks = 32 * kRanksPerLane;

  __device__ static int32_t first() { return static_cast<int32_t>(threadIdx.x % 32); }
  __device__ static bool is_writer() { return first() == 0; }
  __device__ static constexpr int32_t num_own(int32_t) { return kRanksPerLane; }
  __device__ static int32_t rank_of(int32_t i) { return first() + 32 * i; }

  __device__ static bool has_own(uint64_t set, int32_t i) {
    const auto word = static_cast<uint32_t>(i == 0 ? set : set >> 32);
    return (word >> first() & 1) != 0;
  }

  __device__ static Key max(Key key) {
    if constexpr (sizeof(Key) == 4) return __reduce_max_sync(kWholeWarp, key);
    return static_cast<Key>(warp_max(key));
  }
  __device__ static Key min(Key key) {
    if constexpr (sizeof(Key) == 4) return __reduce_min_sync(kWholeWarp, key);
    return static_cast<Key>(warp_min(key));
  }
  __device__ static int64_t sum(int64_t value) {
    if constexpr (sizeof(Key) == 4)
      return __reduce_add_sync(kWholeWarp, static_cast<int32_t>(value));
    return static_cast<int64_t>(warp_sum(static_cast<uint64_t>(value)));
  }
  __device__ static void sync() { __syncwarp(); }

  // Memory has room for kMaxRanks numbers. Lanes of many ranks keep theirs in memory alone.
  class RankValues {
   public:
    RankValues() = default;
    __device__ explicit RankValues(int32_t* memory) : memory_(memory) {}
    __device__ int32_t own(int32_t i) const {
      if constexpr (kInRegisters) return own_[i];
      return memory_[rank_of(i)];
    }
    __device__ void set_own(int32_t i, int32_t value) {
      if constexpr (kInRegisters) own_[i] = value;
      memory_[rank_of(i)] = value;
    }
    __device__ int32_t at(int32_t rank) const { return memory_[rank]; }
    __device__ void add(int32_t rank, int32_t amount) {
      if constexpr (kInRegisters) {
#pragma unroll
        for (int32_t i = 0; i < kRanksPerLane; ++i) {
          if (rank_of(i) == rank) set_own(i, own_[i] + amount);
        }
      } else {
        if (rank % 32 == first()) memory_[rank] += amount;
      }
    }
    __device__ void add_own(int32_t rank, int32_t amount) {
      if constexpr (kInRegisters) {
#pragma unroll
        for (int32_t i = 0; i < kRanksPerLane; ++i) own_[i] += rank_of(i) == rank ? amount : 0;
      } else {
        add(rank, amount);
      }
    }
    __device__ void replace_own(int32_t rank, int32_t value) {
      if constexpr (kInRegisters) {
#pragma unroll
        for (int32_t i = 0; i < kRanksPerLane; ++i) own_[i] = rank_of(i) == rank ? value : own_[i];
      } else {
        if (rank % 32 == first()) memory_[rank] = value;
      }
    }
    __device__ void publish() {
      if constexpr (kInRegisters) {
#pragma unroll
        for (int32_t i = 0; i < kRanksPerLane; ++i) memory_[rank_of(i)] = own_[i];
      }
    }

    __device__ int32_t told(int32_t rank) const {
      if constexpr (kInRegisters) {
        const int32_t mine = kRanksPerLane == 2 && rank >= 32 ? own_[kRanksPerLane - 1] : own_[0];
        return __shfl_sync(kWholeWarp, mine, rank);  // lane rank % 32
      } else {
        __syncwarp();
        return memory_[rank];
      }
    }

   private:
    static constexpr bool kInRegisters = kRanksPerLane <= 2;
    int32_t* memory_ = nullptr;
    int32_t own_[kInRegisters ? kRanksPerLane : 1] = {};
  };
};

}  // namespace megaflux
