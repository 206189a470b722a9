// DeviceHeadParams: the kernel argument of every kernel with a head in it (head_device.cuh), made
// by DeviceHead.
#pragma once

#include <algorithm>
#include <cstdint>

#include "megaflux/base/math.h"
#include "megaflux/comm/device_context.h"
#include "megaflux/head/device_head_fields.h"
#include "megaflux/moe/plan_view.h"
#include "megaflux/moe/routing.h"
#include "megaflux/moe/work_list.h"

namespace megaflux {

// What the host reads without waiting, in pinned memory; kernels write it only when there is
// something to tell.
struct HeadStatus {
  int64_t dropped_total = 0;   // rows dropped over all launches
  uint32_t too_many_rows = 0;  // 1: a launch met 2^31 rows or more; the host takes it back to 0
};

// How the (token, k) pairs of a rank are cut: into chunks, one a CTA, and segments, one a warp.
// launch_head_kernel makes it, since divisions are slow on a device and T is known.
struct RouteChunks {
  int32_t num_pairs = 0;  // T K
  int32_t num_chunks = 1;
  int32_t num_warps = 1;   // of a chunk
  int32_t warp_pairs = 0;  // of a segment, whole warps

  // At most `max_chunks`, of `num_threads`; more pairs a chunk for more experts, since every chunk
  // reads the counts of all; and a chunk for every rank, if there are as many, since chunks also
  // map the sources.
  static RouteChunks of(int32_t num_pairs, int32_t num_experts, int32_t num_ranks,
                        int32_t num_threads, int32_t max_chunks) {
    constexpr int32_t kWarp = 32;
    const int32_t least = std::max(8 * num_experts, 4 * num_threads);
    const int32_t wanted = std::max(ceil_div(num_pairs, least), num_ranks);
    const int32_t chunks = std::min(wanted, max_chunks);
    const int32_t warps = num_threads / kWarp;
    return {num_pairs, chunks, warps, round_up(ceil_div(num_pairs, chunks * warps), kWarp)};
  }
};

struct DeviceHeadParams {
  DeviceHeadFields fields;
  PlanView plan;  // where things stand in a plan; its bytes are the field's
  int32_t num_experts = 0;
  int32_t num_ranks = 0;
  int32_t num_slots = 0;  // P s
  int32_t layer = 0;
  uint64_t weight_version = 0;
  uint64_t config_hash = 0;
  const int32_t* resident = nullptr;  // [P s], this device's memory; or null
  PartOrder order = PartOrder::kOwnedFirst;
  HeadStatus* statuses = nullptr;             // [num_local], pinned
  RoutingView routings[kMaxLocalRanks] = {};  // [num_local], pointers to this device's memory
  RouteChunks chunks[kMaxLocalRanks] = {};    // [num_local], set at the launch
};

}  // namespace megaflux
