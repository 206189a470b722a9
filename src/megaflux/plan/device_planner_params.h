// What the device planner is told, as plain values: made on the host by DevicePlanner
// (device_planner_cuda.h), passed to kernels by value.
#pragma once

#include <cstddef>
#include <cstdint>

#include "megaflux/moe/limits.h"
#include "megaflux/moe/plan.h"
#include "megaflux/plan/cost_rules.h"
#include "megaflux/plan/planner.h"

namespace megaflux {

// One NVLink domain. Places number the active ranks by (domain, id), and their experts by (place of
// the owner, id).
struct DeviceDomain {
  int32_t first_rank = 0;    // place
  int32_t num_ranks = 0;     // active ones
  int32_t first_expert = 0;  // place
  int32_t num_experts = 0;
  int32_t is_uniform = 1;
};

// Which lanes search: the least that can hold the problem (search/warp_lanes_device.cuh); narrow
// ones are plain where steps and configuration allow it (with_planner_lanes).
enum class PlannerLanes : uint8_t { kNarrow32, kNarrow64, kCost32, kCost64, kWide128 };

// Ranks of a domain that they can hold.
MF_HOST_DEVICE constexpr int32_t most_ranks(PlannerLanes lanes) {
  if (lanes == PlannerLanes::kWide128) return kMaxDeviceRanks;
  return lanes == PlannerLanes::kNarrow32 || lanes == PlannerLanes::kCost32 ? 32 : 64;
}

// Shared memory that a planner leaves to a kernel in which it is one part.
inline constexpr size_t kPlannerCallerBytes = 8 * 1024;

// The words that a plan's hash begins with: E, P, s, block_rows.
inline constexpr int32_t kNumDimWords = 4;

struct DevicePlannerParams {
  PlanDims dims;      // block_rows as in the plan: 1 for quota
  int32_t units = 1;  // of the problem in a block of the cost model
  PlannerKind planner = PlannerKind::kMegaflux;
  Objective objective = Objective::kForward;
  PlannerLanes lanes = PlannerLanes::kNarrow32;
  bool has_least = false;
  int32_t lambda_blocks = 0;
  int32_t slack_ppm = 0;
  int32_t min_copy_blocks = 1;
  int32_t min_rows_per_replica = 1;
  int64_t min_forward_rows = 0;
  int64_t max_blocks = 0;  // more in a step are refused
  uint64_t dims_hash = 0;  // what those words add to the hash of a plan
  CostTimes cost;          // read if the objective is kCost

  int32_t num_domains = 1;
  int32_t num_places = 0;    // active ranks
  int32_t most_owned = 0;    // experts of one rank
  int32_t rank_words = 1;    // 64-bit words of a set of a domain's ranks
  int32_t num_searches = 1;  // that fit in shared memory side by side
  uint32_t shared_bytes = 0;
  // Into shared memory (place_memory); holders_offset into that of a search.
  uint32_t resident_offset = 0;
  uint32_t least_offset = 0;
  uint32_t search_offset = 0;
  uint32_t search_bytes = 0;
  uint32_t holders_offset = 0;

  // In device memory.
  const DeviceDomain* domains = nullptr;  // [num_domains]
  const int32_t* owner_of = nullptr;      // [E]
  const int32_t* owned = nullptr;         // [E] ids by place; those of inactive owners last
  const int32_t* owner_place = nullptr;   // [E] place of the owner of an id, -1 = inactive
  // [num_places + num_domains] where each rank's experts begin, from the domain's first; the end
  // of the last one closes each domain.
  const int32_t* first_owned = nullptr;
  const int32_t* ranks = nullptr;  // [num_places] ids
  const int64_t* base = nullptr;   // [num_places]
  const int64_t* speed = nullptr;  // [num_places]
};

enum class DevicePlanStatus : int32_t {
  kPlanned = 0,
  kOrphans,      // rows for experts whose owner is inactive: no legal plan
  kTooManyRows,  // a negative number of rows, 2^31 rows or more, or more blocks than max_blocks
};

// Beside the plan, whose bytes are written if and only if the status is kPlanned.
struct DevicePlanReport {
  DevicePlanStatus status = DevicePlanStatus::kPlanned;
  GateDecision gate = GateDecision::kNotAsked;
  int32_t num_orphans = 0;
  int64_t tau = 0;
};

}  // namespace megaflux
