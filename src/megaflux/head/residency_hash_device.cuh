// What a head enters with in the place of a plan's hash.
#pragma once

#include <cstdint>

#include "megaflux/base/block_scan_device.cuh"
#include "megaflux/base/hash.h"
#include "megaflux/head/device_head_params.h"

namespace megaflux::device_head {

// Of what enters the decision and is no configuration, as the host's head hashes it (with no plan
// from outside). Called by all lanes of a warp.
__device__ inline uint64_t residency_hash(const DeviceHeadParams& params) {
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarpThreads);
  const int32_t num_slots = params.resident != nullptr ? params.num_slots : 0;
  const int32_t num_words = 7 + num_slots;
  uint64_t sum = 0;
#pragma unroll 1
  for (int32_t i = lane; i < num_words; i += kWarpThreads) {
    uint32_t word = 0;  // of the upper halves of sizes, and of the plan that is none
    if (i == 0) word = static_cast<uint32_t>(params.layer);
    if (i == 1) word = static_cast<uint32_t>(params.weight_version);
    if (i == 2) word = static_cast<uint32_t>(params.weight_version >> 32);
    if (i == 3) word = static_cast<uint32_t>(num_slots);
    if (i >= 5 && i < 5 + num_slots) word = static_cast<uint32_t>(params.resident[i - 5]);
    sum += hash_word(word, static_cast<uint64_t>(i));
  }
#pragma unroll
  for (int32_t step = kWarpThreads / 2; step > 0; step /= 2) {
    sum += __shfl_xor_sync(~0u, sum, step);
  }
  return mix64(sum ^ static_cast<uint64_t>(num_words));
}

}  // namespace megaflux::device_head
