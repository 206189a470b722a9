// StepReport: what one call of a session did, rank by rank. Reused from call to call without
// allocation.
#pragma once

#include <cstdint>
#include <vector>

#include "megaflux/layer/cpu/report.h"
#include "megaflux/plan/planner.h"

namespace megaflux {

// Example: rank 1 pulls 51,200 bytes of rows from rank 0 and nothing else is dispatched. Then
// bytes_in(kDispatch, 1) = bytes_out(kDispatch, 0) = 51,200 and total(kDispatch) = 51,200.
struct StepReport {
  std::vector<RankReport> ranks;  // [P] bytes moved, rows, rounds, CPU and wall time
  PlanReport plan;                // orphans, gate and predictions; of the planner that ran last
  int64_t head_ns = 0;            // wall time of counts, plan and lists; 0 if none ran
  int64_t layer_ns = 0;           // wall time of the layer over all ranks

  // Bytes of one kind that reached, or left, `rank`; copies inside a rank are not counted.
  int64_t bytes_in(Traffic kind, int32_t rank) const;
  int64_t bytes_out(Traffic kind, int32_t rank) const;
  int64_t total(Traffic kind) const;
  // Most padded rows on a rank: 128 rows a tile.
  int64_t peak_rows() const;
};

}  // namespace megaflux
