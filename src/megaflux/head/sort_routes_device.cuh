// The routes of one rank, counted and sorted by expert by many CTAs: a stable counting sort over
// the (token, k) pairs in their order. No atomic decides a place: lanes with the same expert find
// each other by a match.
//
// The pairs are cut into chunks, one a CTA, and those into segments, one a warp. Every warp counts
// its segment, every CTA publishes its counts, and the place of a pair is
//   pairs of smaller experts + pairs of its expert in earlier chunks, earlier warps, earlier lanes.
//
// Example, E = 2, ids {1, 0, 0, 1, 1, -1} cut in chunks of three: counts {2, 1} and {0, 2}; expert
// 1 begins at 2 in chunk 0 and at 2 + 1 in chunk 1; the list is {1, 2, 0, 3, 4}.
#pragma once

#include <cstddef>
#include <cstdint>

#include "megaflux/base/block_scan_device.cuh"
#include "megaflux/base/math.h"
#include "megaflux/head/device_head_params.h"
#include "megaflux/head/epoch_counts_device.cuh"
#include "megaflux/moe/routing.h"

namespace megaflux {

// Pairs [begin, end).
struct RouteSegment {
  int32_t begin = 0;
  int32_t end = 0;

  __device__ static RouteSegment of(const RouteChunks& chunks, int32_t chunk, int32_t warp) {
    const int64_t first =
        (static_cast<int64_t>(chunk) * chunks.num_warps + warp) * chunks.warp_pairs;
    const int64_t limit = chunks.num_pairs;
    return {static_cast<int32_t>(min(first, limit)),
            static_cast<int32_t>(min(first + chunks.warp_pairs, limit))};
  }
};

namespace sort_routes {

inline constexpr int32_t kNoExpert = -1;
inline constexpr int32_t kOutOfRange = -2;
// Ids in flight a lane before the first is used.
inline constexpr int32_t kBatch = 4;

// Ids `first` + 32 u, u < kBatch; -1 at and beyond `end`.
template <typename Id>
__device__ __forceinline__ void load_ids(const void* topk_ids, int64_t first, int32_t end,
                                         int64_t (&ids)[kBatch]) {
#pragma unroll
  for (int32_t u = 0; u < kBatch; ++u) {
    const int64_t index = first + u * kWarpThreads;
    ids[u] = index < end ? static_cast<const Id*>(topk_ids)[index] : Id{-1};
  }
}

// Calls visit(pair, expert) for all lanes of this warp together, pairs in order, 32 at a time; the
// expert is kNoExpert for pairs of tokens that are not valid, and behind the segment.
template <class Visit>
__device__ __forceinline__ void visit_segment(const RoutingView& routing, int32_t num_experts,
                                              RouteSegment segment, Visit&& visit) {
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarpThreads);
  // Read beside the first ids, which lie inside the array whatever it says.
  const int64_t num_valid = static_cast<int64_t>(routing.valid_tokens()) * routing.topk;
#pragma unroll 1
  for (int64_t begin = segment.begin; begin < segment.end; begin += kBatch * kWarpThreads) {
    int64_t ids[kBatch];
    const int64_t first = begin + lane;
    switch (routing.id_type) {
      case IdType::kInt16:
        load_ids<int16_t>(routing.topk_ids, first, segment.end, ids);
        break;
      case IdType::kInt32:
        load_ids<int32_t>(routing.topk_ids, first, segment.end, ids);
        break;
      case IdType::kInt64:
        load_ids<int64_t>(routing.topk_ids, first, segment.end, ids);
        break;
    }
#pragma unroll
    for (int32_t u = 0; u < kBatch; ++u) {
      if (begin + u * kWarpThreads >= segment.end) break;
      const int64_t pair = first + u * kWarpThreads;
      int32_t expert = kNoExpert;
      if (pair < num_valid && ids[u] != kNoExpert) {
        const bool is_known = static_cast<uint64_t>(ids[u]) < static_cast<uint64_t>(num_experts);
        expert = is_known ? static_cast<int32_t>(ids[u]) : kOutOfRange;
      }
      visit(static_cast<int32_t>(pair), expert);
    }
  }
}

}  // namespace sort_routes

// Shared memory of a CTA that counts and sorts.
struct SortShared {
  uint64_t* partial = nullptr;      // [kGroupSums]
  uint64_t* scan = nullptr;         // [2, kMaxCtaWarps]
  uint32_t* warp_counts = nullptr;  // [warps, E + 1]; the last column = ids out of range

  static size_t bytes(int32_t num_experts, int32_t num_threads) {
    const auto rows = static_cast<size_t>(num_threads) / kWarpThreads;
    return sizeof(uint64_t) * (kGroupSums + 2 * kMaxCtaWarps) +
           sizeof(uint32_t) * rows * (static_cast<size_t>(num_experts) + 1);
  }
  __device__ explicit SortShared(std::byte* memory)
      : partial(reinterpret_cast<uint64_t*>(memory)),
        scan(partial + kGroupSums),
        warp_counts(reinterpret_cast<uint32_t*>(scan + 2 * kMaxCtaWarps)) {}
};

// One CTA of kThreads with the chunk of its number; every function is called by all of them.
template <int32_t kThreads>
class ChunkSorter {
  static constexpr int32_t kWarps = HeadCta<kThreads>::kWarps;
  static constexpr int32_t kExperts = HeadCta<kThreads>::kExperts;

 public:
  __device__ ChunkSorter(const DeviceRank& self, const RoutingView& routing, int32_t num_experts,
                         const RouteChunks& chunks, const SortShared& shared)
      : self_(self),
        routing_(routing),
        shared_(shared),
        stride_(num_experts + 1),
        warp_row_(shared.warp_counts + (threadIdx.x / kWarpThreads) * stride_),
        segment_(
            RouteSegment::of(chunks, self.cta, static_cast<int32_t>(threadIdx.x / kWarpThreads))) {}

  // Counts the chunk, in shared memory. An add's order does not matter here.
  __device__ void count() {
    const auto lane = static_cast<int32_t>(threadIdx.x % kWarpThreads);
    for (int32_t column = lane; column < stride_; column += kWarpThreads) warp_row_[column] = 0;
    __syncwarp();
    sort_routes::visit_segment(routing_, num_experts(), segment_, [&](int32_t, int32_t expert) {
      if (expert == sort_routes::kOutOfRange) expert = num_experts();
      if (expert >= 0) atomicAdd(warp_row_ + expert, 1u);
    });
    __syncthreads();
  }

  // Tells the other CTAs of the rank what was counted.
  __device__ void publish(const ChunkCounts& counts) const {
    for (auto column = static_cast<int32_t>(threadIdx.x); column < stride_; column += kThreads) {
      uint32_t sum = 0;
#pragma unroll
      for (int32_t warp = 0; warp < kWarps; ++warp) {
        sum += shared_.warp_counts[warp * stride_ + column];
      }
      publish_count(self_, counts, self_.cta, column, sum);
    }
  }

  // Writes the chunk's pairs to their places in the route list of the rank, and `offsets` [E + 1]
  // if the chunk is the first. Waits for the counts of the other chunks; writes nothing if
  // that wait ends by an abort.
  __device__ void sort(const ChunkCounts& counts, int32_t* offsets, int32_t* pairs) {
    const ExpertGroups groups(num_experts(), kThreads);
    const bool is_sound = sum_counts(
        self_, counts, groups, self_.cta,
        [&](int32_t expert, uint64_t rows) { shared_.partial[groups.place(expert)] = rows; });
    if (!__syncthreads_and(is_sound)) return;
    place_columns(groups, offsets);
    __syncthreads();
    const auto lane = static_cast<int32_t>(threadIdx.x % kWarpThreads);
    const uint32_t lanes_before = (1u << lane) - 1;
    sort_routes::visit_segment(
        routing_, num_experts(), segment_, [&](int32_t pair, int32_t expert) {
          const bool is_routed = expert >= 0;
          const uint32_t peers = __match_any_sync(~0u, expert);  // lanes with the same expert
          const uint32_t first = is_routed ? warp_row_[expert] : 0;
          __syncwarp();
          if (is_routed) {
            pairs[first + __popc(peers & lanes_before)] = pair;
            if ((peers & lanes_before) == 0) warp_row_[expert] = first + __popc(peers);
          }
          __syncwarp();
        });
  }

 private:
  __device__ int32_t num_experts() const {
    return stride_ - 1;
  }

  // Swaps every warp's counts for the places of its first pairs.
  __device__ void place_columns(const ExpertGroups& groups, int32_t* offsets) {
    uint64_t sums[kExperts];  // rows of the chunks before above those of all
    uint64_t place[1] = {0}, num_pairs[1];
#pragma unroll
    for (int32_t u = 0; u < kExperts; ++u) {
      const int32_t expert = kExperts * static_cast<int32_t>(threadIdx.x) + u;
      sums[u] = expert < num_experts() ? groups.total(shared_.partial, expert) : 0;
      place[0] += static_cast<uint32_t>(sums[u]);
    }
    scan_exclusive(place, num_pairs, ceil_div(num_experts(), kExperts), shared_.scan);
    auto begin = static_cast<uint32_t>(place[0]);
#pragma unroll
    for (int32_t u = 0; u < kExperts; ++u) {
      const int32_t expert = kExperts * static_cast<int32_t>(threadIdx.x) + u;
      if (expert >= num_experts()) break;
      if (self_.cta == 0) offsets[expert] = static_cast<int32_t>(begin);
      place_column(expert, begin + static_cast<uint32_t>(sums[u] >> 32));
      begin += static_cast<uint32_t>(sums[u]);
    }
    if (self_.cta == 0 && threadIdx.x == 0) {
      offsets[num_experts()] = static_cast<int32_t>(num_pairs[0]);
    }
  }

  // The same for one expert, whose first pair of the chunk is at `place`.
  __device__ void place_column(int32_t expert, uint32_t place) {
    constexpr int32_t kStep = 6;
    static_assert(kWarps % kStep == 0);
    uint32_t* const column = shared_.warp_counts + expert;
    for (int32_t warp = 0; warp < kWarps; warp += kStep) {
      uint32_t counts[kStep];
#pragma unroll
      for (int32_t u = 0; u < kStep; ++u) counts[u] = column[(warp + u) * stride_];
#pragma unroll
      for (int32_t u = 0; u < kStep; ++u) {
        column[(warp + u) * stride_] = place;
        place += counts[u];
      }
    }
  }

  const DeviceRank& self_;
  const RoutingView& routing_;
  const SortShared& shared_;
  int32_t stride_;
  uint32_t* warp_row_;  // [E + 1] of this warp
  RouteSegment segment_;
};

}  // namespace megaflux
