// Where the head of every rank leaves its results in device memory: places in the group's heap,
// listed once for hosts and kernels. Only the route list is read by peers, and only rank_counts are
// written by them; the rest is the rank's own, and lies there so that a kernel finds everything
// through one base pointer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "megaflux/comm/row_map.h"
#include "megaflux/head/head.h"
#include "megaflux/moe/limits.h"
#include "megaflux/moe/plan.h"
#include "megaflux/moe/work_list.h"

namespace megaflux {

// One CTA of a rank plans, the others count and sort.
inline constexpr int32_t kMinHeadCtas = 2;

// How the last launch of a rank ended; equal on all ranks that entered.
enum class HeadOutcome : uint32_t {
  kNone,         // not launched yet
  kPlanned,      // everything below is whole
  kNoLegalPlan,  // experts without a living owner have rows; plan and work list are empty
  kTooManyRows,  // 2^31 rows or more, or more than the planner holds; plan and work list are empty
  kNotEntered,   // ranks disagree, one refused, or the group has failed; plan and work list are
                 // empty
};

struct HeadResult {
  HeadOutcome outcome = HeadOutcome::kNone;
  uint32_t epoch = 0;         // of that launch
  int64_t dropped_rows = 0;   // of this rank: ids outside [-1, E)
  int64_t dropped_total = 0;  // the same over all launches, also those that did not enter
};
static_assert(sizeof(HeadResult) == 24);

// Example, E = 128, P = 8, s = 2, K = 8, T_max = 4096, 131 chunks: pairs 131,072 B, chunk counts
// 135,192 B, plan 5,008 B, parts 4,608 B, and some 18 KB of tables: 0.3 MB a rank.
struct DeviceHeadFields {
  RouteFields routes;            // offsets [E + 1] and pairs [T_max K], as the host's head
  Field<int32_t> loads;          // [P, E] rows of each source
  Field<int32_t> source_begin;   // [P + 1, E] comm/row_map_device.cuh
  Field<int32_t> route_offsets;  // [P, E + 1] the same
  Field<std::byte> plan;         // bytes of the plan; its header is zero if there is none
  Field<std::byte> report;       // what the planner says of it; of no use after kNotEntered
  Field<WorkListHeader> work;    // [1] moe/work_list_device.cuh
  Field<Part> parts;             // [E] the first work->num_parts are in use
  Field<HeadResult> result;      // [1]
  Field<uint32_t> chunk_counts;  // [max_chunks, E + 1, 2] between CTAs of the rank
  Field<uint32_t> rank_counts;   // [2, P, E, 2] rows per expert, written by their ranks
  int32_t max_ctas = 0;          // of one rank in a launch
};

struct DeviceHeadLimits {
  int32_t max_ctas = 0;     // CTAs a rank: the SMs of a device / its ranks
  size_t report_bytes = 0;  // of the planner's report
};

// Throws kBadInput naming field, value and limit.
DeviceHeadFields add_device_head_fields(Layout& layout, const HeadConfig& config,
                                        const DeviceHeadLimits& limits);

}  // namespace megaflux
