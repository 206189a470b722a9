// Sums over the threads of a CTA in thread order: each thread learns the sum of the threads before
// it.
//
// Example, 4 threads with {3, 0, 2, 1}: they get {0, 3, 3, 5}, and total 6.
#pragma once

#include <cstdint>

namespace megaflux {

inline constexpr int32_t kWarpThreads = 32;
inline constexpr int32_t kMaxCtaWarps = 32;
// Sums of N values at once, so that several cost one pass. `values` of the first `num_threads`
// threads become the sums of the threads before, `totals` of all threads those of all; the other
// threads' values are 0. Called by all threads of a CTA of whole warps; `warp_sums` is shared
// memory of N x 32 words that nobody else uses between this call and the next barrier.
template <int N>
__device__ __forceinline__ void scan_exclusive(uint64_t (&values)[N], uint64_t (&totals)[N],
                                               int32_t num_threads, uint64_t* warp_sums) {
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarpThreads);
  const auto warp = static_cast<int32_t>(threadIdx.x / kWarpThreads);
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
  __syncthreads();  // the sums of a call before have been read
  if (warp < num_warps && lane == kWarpThreads - 1) {
#pragma unroll
    for (int n = 0; n < N; ++n) warp_sums[n * kMaxCtaWarps + warp] = upto[n];
  }
  __syncthreads();
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
