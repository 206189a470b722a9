// Placements by history, which eplb and lplb make: as users run them, a placement is made from the
// loads of earlier steps and then holds for a while, as simulate/sweep.h has it.
//
// Example, an interval of 64 steps: step 130 runs with the placement of step 128, made from the
// loads of steps 64 to 127 of the same layer. Steps 0 to 63 run with one made for even loads.
#pragma once

#include <cstdint>
#include <vector>

#include "megaflux/trace/trace.h"
#include "simulate/step_simulator.h"
#include "simulate/sweep.h"

namespace megaflux::viewer {

class PlacementHistory {
 public:
  // `trace` outlives it.
  explicit PlacementHistory(const Trace& trace)
      : trace_(trace), interval_(simulate::history_interval_of(trace, {})) {}

  // Steps that a placement holds, and that it is made from.
  int64_t interval() const { return interval_; }

  // Rows of each expert [E] that the placement of `cell` is made from.
  std::vector<int64_t> rows_for(int64_t cell) const;

  // Brings the simulator of a planner by history to the placement that `cell` runs with. What has
  // to move for it, seen from the placement before, is charged to the next step that it simulates.
  // `loads` are any that fit the simulator.
  void place(int64_t cell, const LoadTable& loads, simulate::StepSimulator& simulator) const;

 private:
  std::vector<int64_t> rows_before(int32_t layer_idx, int64_t placement_idx) const;

  const Trace& trace_;
  const int64_t interval_;
};

}  // namespace megaflux::viewer
