// Sums over the threads of a CTA in thread order: each thread learns the sum of the threads before
// it.
//
// Example, 4 threads with {3, 0, 2, 1}: they get {0, 3, 3, 5}, and total 6.
#pragma once

#include <cstdint>

namespace megaflux {

inline constexpr int32_t kWarpThreads = 32;
inline constexpr int32_t kMaxCtaWarps = 32;

// Who scans together: all threads of a CTA.
struct WholeCta {
  __device__ __forceinline__ int32_t thread() const { return static_cast<int32_t>(threadIdx.x); }
  __device__ __forceinline__ void meet() const { __syncthreads(); }
};

// Or `num_warps` warps of it from `first_warp` on, which meet at a hardware barrier of their own, 1
// to 15; no other warps of the CTA use it at the same time.
struct WarpsOfCta {
  int32_t first_warp = 0;
  int32_t num_warps = 0;
  int32_t barrier = 1;

  __device__ __forceinline__ int32_t thread() const {
    return static_cast<int32_t>(threadIdx.x) - first_warp * kWarpThreads;
  }
  __device__ __forceinline__ bool has_me() const {
    return thread() >= 0 && thread() < num_warps * kWarpThreads;
  }
  __device__ __forceinline__ void meet() const {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(num_warps * kWarpThreads) : "memory");
  }
  // The same; true in all threads if `mine` is true in each of them.
  __device__ __forceinline__ bool meet_and(bool mine) const {
    uint32_t all = 0;
    asm volatile(
        "{ .reg .pred mine, all; setp.ne.u32 mine, %1, 0; bar.red.and.pred all, %2, %3, mine; "
        "selp.u32 %0, 1, 0, all; }"
        : "=r"(all)
        : "r"(static_cast<uint32_t>(mine)), "r"(barrier), "r"(num_warps * kWarpThreads)
        : "memory");
    return all != 0;
  }
};

// Sums of N values at once, so that several cost one pass. `values` of the team's first
// `num_threads` threads become the sums of the threads before, `totals` of all threads those of
// all; the other threads' values are 0. Called by all threads of the team; `warp_sums` is shared
// memory of N x 32 words that nobody else uses between this call and the team's next meeting.
template <int N, class Team = WholeCta>
__device__ __forceinline__ void scan_exclusive(uint64_t (&values)[N], uint64_t (&totals)[N],
                                               int32_t num_threads, uint64_t* warp_sums,
                                               const Team& team = {}) {
  const int32_t lane = team.thread() % kWarpThreads;
  const int32_t warp = team.thread() / kWarpThreads;
  const int32_t num_warps = (num_threads + kWarpThreads - 1) / kWarpThreads;
  uint64_t upto[N];
  if (warp < num_warps) {
#pragma unroll
    for (int n = 0; n < N; ++n) upto[n] = values[n];
#pragma unroll
    for (int32_t step = 1; step < kWarpThreads; step *= 2) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const uint64_t left = __shfl_up_sync(~0u, upto[n], step);
        if (lane >= step) upto[n] += left;
      }
    }
  }
  team.meet();  // the sums of a call before have been read
  if (warp < num_warps && lane == kWarpThreads - 1) {
#pragma unroll
    for (int n = 0; n < N; ++n) warp_sums[n * kMaxCtaWarps + warp] = upto[n];
  }
  team.meet();
#pragma unroll
  for (int n = 0; n < N; ++n) {
    values[n] = warp < num_warps ? upto[n] - values[n] : 0;
    totals[n] = 0;
  }
#pragma unroll 2
  for (int32_t w = 0; w < num_warps; ++w) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const uint64_t sum = warp_sums[n * kMaxCtaWarps + w];
      totals[n] += sum;
      if (w < warp) values[n] += sum;
    }
  }
}

}  // namespace megaflux
