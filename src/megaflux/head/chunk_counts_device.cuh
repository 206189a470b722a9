// The counts that the CTAs of a rank tell each other: a count and the epoch it belongs to in one
// 64-bit word, so that whoever sees the epoch has the count. No fence, no flag, no second trip to
// the L2 cache, and nothing to clear between launches.
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
};

// In the rank's own memory; words that were never written hold an epoch before every launch.
struct ChunkCounts {
  uint64_t* words = nullptr;  // [chunks, E + 1]; the last of a chunk = its ids out of range
  int32_t num_chunks = 0;
  int32_t num_experts = 0;

  __device__ uint64_t* at(int32_t chunk, int32_t column) const {
    return words + static_cast<int64_t>(chunk) * (num_experts + 1) + column;
  }
};

// Rows of one expert: of all chunks, and of those before one's own.
struct ColumnCounts {
  uint32_t total = 0;
  uint32_t before = 0;
};

// The threads of a CTA as groups that each walk over all experts, `width` at a time.
struct ExpertGroups {
  int32_t width = 0;  // threads of a group: E rounded up to a power of two, 32 ... 256
  int32_t count = 0;
  int32_t group = 0;  // of this thread; count or more = it has none
  int32_t first = 0;  // expert of this thread
  int32_t stride = 0;

  __device__ explicit ExpertGroups(int32_t num_experts) {
    const int32_t bits = min(max(32 - __clz(num_experts - 1), 5), 8);
    width = 1 << bits;
    count = static_cast<int32_t>(blockDim.x) >> bits;
    group = static_cast<int32_t>(threadIdx.x) >> bits;
    first = static_cast<int32_t>(threadIdx.x) & (width - 1);
    stride = round_up(num_experts, width);
  }
  // Where a group leaves its sum of an expert in an array of kGroupSums.
  __device__ int32_t place(int32_t of_group, int32_t expert) const {
    return of_group * stride + expert;
  }
};
// Groups of 256 experts and more are two at most, since no CTA of a head has 768 threads.
inline constexpr int32_t kGroupSums = 2 * kMaxDeviceExperts;

namespace chunk_counts {

__device__ inline uint64_t load(uint64_t* word) {
  return cuda::atomic_ref<uint64_t, kRankScope>(*word).load(cuda::memory_order_relaxed);
}

// Reads kBatch words, `step` chunks apart, until all are of this launch; those past the last chunk
// count 0. False: the group has aborted.
template <int32_t kBatch>
__device__ __forceinline__ bool await_counts(const DeviceRank& self, const ChunkCounts& counts,
                                             int32_t first, int32_t step, int32_t column,
                                             uint32_t (&rows)[kBatch]) {
  const Awaited awaited = {.tag = WaitTag::kChunkCounts, .expected = self.epoch, .index = first};
  return wait_until(self, awaited, [&] {
    uint32_t seen = self.epoch;
#pragma unroll
    for (int32_t u = 0; u < kBatch; ++u) {
      rows[u] = 0;
      const int32_t chunk = first + u * step;
      if (chunk >= counts.num_chunks) continue;
      const uint64_t word = load(counts.at(chunk, column));
      rows[u] = static_cast<uint32_t>(word);
      // Equal or behind: nobody runs ahead, and a word that no step since 2^31 launches had so many
      // chunks for would seem to.
      if (static_cast<uint32_t>(word >> 32) != self.epoch) seen = self.epoch - 1;
    }
    return seen;
  });
}

}  // namespace chunk_counts

// One thread tells one count of its chunk.
__device__ inline void publish_count(const DeviceRank& self, const ChunkCounts& counts,
                                     int32_t chunk, int32_t column, uint32_t count) {
  fuzz_delay(self);
  cuda::atomic_ref<uint64_t, kRankScope>(*counts.at(chunk, column))
      .store(uint64_t{self.epoch} << 32 | count, cuda::memory_order_relaxed);
}

// Thread t gets the rows of its experts over all chunks, and over the chunks before `chunk`. Waits
// for them; called by all threads of a HeadCta. `partial` is scratch of kGroupSums words. False in
// all threads: the group has aborted.
template <int32_t kExperts>
__device__ bool gather_counts(const DeviceRank& self, const ChunkCounts& counts, int32_t chunk,
                              uint64_t* partial, ColumnCounts (&columns)[kExperts]) {
  constexpr int32_t kBatch = 4;  // loads in flight a thread
  const ExpertGroups groups(counts.num_experts);
  bool is_sound = true;
  for (int32_t expert = groups.first; groups.group < groups.count && expert < counts.num_experts;
       expert += groups.width) {
    uint64_t sums = 0;  // rows before above all rows; both are below 2^31
#pragma unroll 1
    for (int32_t first = groups.group; is_sound && first < counts.num_chunks;
         first += kBatch * groups.count) {
      uint32_t rows[kBatch];
      is_sound = chunk_counts::await_counts(self, counts, first, groups.count, expert, rows);
#pragma unroll
      for (int32_t u = 0; u < kBatch; ++u) {
        const bool is_before = first + u * groups.count < chunk;
        sums += rows[u] + (is_before ? uint64_t{rows[u]} << 32 : 0);
      }
    }
    partial[groups.place(groups.group, expert)] = sums;
  }
  if (!__syncthreads_and(is_sound)) return false;
#pragma unroll
  for (int32_t u = 0; u < kExperts; ++u) {
    const int32_t expert = kExperts * static_cast<int32_t>(threadIdx.x) + u;
    if (expert >= counts.num_experts) break;
    uint64_t all = 0;
#pragma unroll 4
    for (int32_t g = 0; g < groups.count; ++g) all += partial[groups.place(g, expert)];
    columns[u] = {static_cast<uint32_t>(all), static_cast<uint32_t>(all >> 32)};
  }
  return true;
}

// Ids out of range in all chunks, in every lane of the calling warp, after gather_counts.
__device__ inline bool gather_dropped(const DeviceRank& self, const ChunkCounts& counts,
                                      uint32_t& num_dropped) {
  bool is_sound = true;
  uint32_t sum = 0;
  for (auto chunk = static_cast<int32_t>(threadIdx.x % kWarpThreads);
       is_sound && chunk < counts.num_chunks; chunk += kWarpThreads) {
    uint32_t rows[1];
    is_sound = chunk_counts::await_counts(self, counts, chunk, 0, counts.num_experts, rows);
    sum += rows[0];
  }
  num_dropped = __reduce_add_sync(~0u, sum);
  return __all_sync(~0u, is_sound);
}

}  // namespace megaflux
