// DeviceHeadParams: the kernel argument of every kernel with a head in it (head_device.cuh), made
// by DeviceHead.
#pragma once

#include <cstdint>

#include "megaflux/head/device_head_fields.h"
#include "megaflux/moe/plan_view.h"
#include "megaflux/moe/routing.h"
#include "megaflux/moe/work_list.h"

namespace megaflux {

// Ranks of one device that one launch can serve: two CTAs each on 132 SMs.
inline constexpr int32_t kMaxLocalRanks = 66;

// What the host reads without waiting, in pinned memory; kernels write it only when there is
// something to tell.
struct HeadStatus {
  int64_t dropped_total = 0;   // rows dropped over all launches
  uint32_t too_many_rows = 0;  // 1: a launch met 2^31 rows or more; the host takes it back to 0
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
};

}  // namespace megaflux
