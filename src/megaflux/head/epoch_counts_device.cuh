// The counts that CTAs tell each other, inside a rank and across ranks: a count and the epoch it
// belongs to in one 64-bit word, so that whoever sees the epoch has the count. No fence, no flag,
// no second trip to the L2 cache, and nothing to clear between launches.
//
// Example, launch 7, chunk 2 with 5 rows of expert 0: word [2][0] = 7 << 32 | 5.
#pragma once

#include <cstdint>

#include "megaflux/base/block_scan_device.cuh"
#include "megaflux/base/math.h"
#include "megaflux/comm/wait_device.cuh"
#include "megaflux/head/device_head_fields.h"

namespace megaflux {

// A CTA of kThreads, which are the planner's. Where it deals experts out in order, thread t has the
// kExperts from kExperts t on.
template <int32_t kThreads>
struct HeadCta {
  static_assert(kThreads < 768, "kGroupSums has room for two groups of 256 experts");
  static constexpr int32_t kWarps = kThreads / kWarpThreads;
  static constexpr int32_t kExperts = ceil_div(kMaxDeviceExperts, kThreads);

  __device__ static bool is_last_warp() {
    return static_cast<int32_t>(threadIdx.x / kWarpThreads) == kWarps - 1;
  }
};

// A table in the memory of the rank that reads it; words that were never written hold an epoch
// before every launch.
template <cuda::thread_scope kScope>
struct EpochCounts {
  static constexpr bool kIsOfPeers = kScope == kPeerScope;

  uint64_t* words = nullptr;  // [num_rows, stride]
  int32_t num_rows = 0;
  int32_t stride = 0;

  __device__ uint64_t* word(int32_t row, int32_t column) const {
    return words + static_cast<int64_t>(row) * stride + column;
  }
  __device__ uint64_t load(int32_t row, int32_t column) const {
    return cuda::atomic_ref<uint64_t, kScope>(*word(row, column)).load(cuda::memory_order_relaxed);
  }
};
// Of the chunks of a rank, [chunks, E + 1]; the last of a chunk = its ids out of range.
using ChunkCounts = EpochCounts<kRankScope>;
// Of all ranks, [P, E] of the launch's bank: every rank writes its row into every rank's table.
using RankCounts = EpochCounts<kPeerScope>;

// Threads of a CTA as groups that each walk over all experts, `width` at a time.
struct ExpertGroups {
  int32_t num_experts = 0;
  int32_t width = 0;  // threads of a group: E rounded up to a power of two, 32 ... 256
  int32_t count = 0;
  int32_t group = 0;  // of this thread; count or more = it has none
  int32_t first = 0;  // expert of this thread
  int32_t stride = 0;

  // Of the CTA's first `num_threads` threads.
  __device__ ExpertGroups(int32_t experts, int32_t num_threads) : num_experts(experts) {
    const int32_t bits = min(max(32 - __clz(num_experts - 1), 5), 8);
    width = 1 << bits;
    count = num_threads >> bits;
    group = static_cast<int32_t>(threadIdx.x) >> bits;
    first = static_cast<int32_t>(threadIdx.x) & (width - 1);
    stride = round_up(num_experts, width);
  }
  // Where a group leaves its sum of an expert in an array of kGroupSums.
  __device__ int32_t place(int32_t of_group, int32_t expert) const {
    return of_group * stride + expert;
  }
  // Of this thread's.
  __device__ int32_t place(int32_t expert) const { return place(group, expert); }
  // Sum of all groups.
  __device__ uint64_t total(const uint64_t* partial, int32_t expert) const {
    uint64_t sum = 0;
#pragma unroll 4
    for (int32_t g = 0; g < count; ++g) sum += partial[place(g, expert)];
    return sum;
  }
};
// Groups of 256 experts and more are two at most, since no CTA of a head has 768 threads.
inline constexpr int32_t kGroupSums = 2 * kMaxDeviceExperts;

// Reads kBatch words, `step` rows apart, until all are of this launch; those past the last row
// count 0. False: the group has aborted.
template <int32_t kBatch, class Counts>
__device__ __forceinline__ bool await_counts(const DeviceRank& self, const Counts& counts,
                                             int32_t first, int32_t step, int32_t column,
                                             uint32_t (&rows)[kBatch]) {
  Awaited awaited = {.tag = Counts::kIsOfPeers ? WaitTag::kRankCounts : WaitTag::kChunkCounts,
                     .expected = self.epoch};
  return wait_until(self, awaited, [&] {
    uint32_t seen = self.epoch;
#pragma unroll
    for (int32_t u = 0; u < kBatch; ++u) {
      rows[u] = 0;
      const int32_t row = first + u * step;
      if (row >= counts.num_rows) continue;
      const uint64_t word = counts.load(row, column);
      rows[u] = static_cast<uint32_t>(word);
      // Equal or behind: nobody runs ahead, and a word that no step since 2^31 launches had so many
      // chunks for would seem to.
      if (static_cast<uint32_t>(word >> 32) == self.epoch) continue;
      seen = self.epoch - 1;
      (Counts::kIsOfPeers ? awaited.peer : awaited.index) = row;
    }
    return seen;
  });
}

// One thread tells one count: of a chunk to its own rank, of a rank to any.
template <class Counts>
__device__ inline void publish_count(const DeviceRank& self, const Counts& counts, int32_t row,
                                     int32_t column, uint32_t count) {
  constexpr auto kScope = Counts::kIsOfPeers ? kPeerScope : kRankScope;
  fuzz_delay(self);
  cuda::atomic_ref<uint64_t, kScope>(*counts.word(row, column))
      .store(uint64_t{self.epoch} << 32 | count, cuda::memory_order_relaxed);
}

// A thread of a group: calls keep(expert, rows) with the group's share of the rows of each expert;
// above them, in the upper 32 bits, the rows of table rows before `before` alone, if there are
// such. Waits for the counts. False: the group has aborted.
template <class Counts, class Keep>
__device__ bool sum_counts(const DeviceRank& self, const Counts& counts, const ExpertGroups& groups,
                           int32_t before, Keep&& keep) {
  constexpr int32_t kBatch = 4;  // loads in flight a thread
  bool is_sound = true;
  for (int32_t expert = groups.first;
       is_sound && groups.group < groups.count && expert < groups.num_experts;
       expert += groups.width) {
    uint64_t sums = 0;
#pragma unroll 1
    for (int32_t first = groups.group; is_sound && first < counts.num_rows;
         first += kBatch * groups.count) {
      uint32_t rows[kBatch];
      is_sound = await_counts(self, counts, first, groups.count, expert, rows);
#pragma unroll
      for (int32_t u = 0; u < kBatch; ++u) {
        const bool is_before = first + u * groups.count < before;
        sums += rows[u] + (is_before ? uint64_t{rows[u]} << 32 : 0);
      }
    }
    keep(expert, sums);
  }
  return is_sound;
}

// All lanes of a warp: ids out of range in all chunks.
__device__ inline bool sum_dropped(const DeviceRank& self, const ChunkCounts& counts,
                                   uint32_t& num_dropped) {
  bool is_sound = true;
  uint32_t sum = 0;
  for (auto chunk = static_cast<int32_t>(threadIdx.x % kWarpThreads);
       is_sound && chunk < counts.num_rows; chunk += kWarpThreads) {
    uint32_t rows[1];
    is_sound = await_counts(self, counts, chunk, 0, counts.stride - 1, rows);
    sum += rows[0];
  }
  num_dropped = __reduce_add_sync(~0u, sum);
  return __all_sync(~0u, is_sound);
}

}  // namespace megaflux
