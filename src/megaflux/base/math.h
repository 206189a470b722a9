// Integer arithmetic that host and device share.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define MF_HOST_DEVICE __host__ __device__
#else
#define MF_HOST_DEVICE
#endif

// Before a loop of device code. One: its body is large or rarely runs twice, and instructions have
// to be fetched too. More: its loads do not wait for each other.
#ifdef __CUDA_ARCH__
#define MF_PRAGMA(words) _Pragma(#words)
#define MF_UNROLL(times) MF_PRAGMA(unroll times)
#else
#define MF_UNROLL(times)
#endif

namespace megaflux {

// ceil(a / b) for a >= 0, b > 0.
template <typename Int>
MF_HOST_DEVICE constexpr Int ceil_div(Int a, Int b) {
  return a / b + (a % b != 0);
}

// The least multiple of `unit` that is >= a, for a >= 0, unit > 0.
template <typename Int>
MF_HOST_DEVICE constexpr Int round_up(Int a, Int unit) {
  return ceil_div(a, unit) * unit;
}

}  // namespace megaflux
