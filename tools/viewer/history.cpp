#include "viewer/history.h"

#include <algorithm>

namespace megaflux::viewer {

std::vector<int64_t> PlacementHistory::rows_before(int32_t layer_idx, int64_t placement_idx) const {
  std::vector<int64_t> rows(trace_.meta().num_experts, placement_idx > 0 ? 0 : 1);
  LoadTable loads;
  for (int64_t step = std::max<int64_t>(0, (placement_idx - 1) * interval_);
       step < placement_idx * interval_; ++step) {
    trace_.read_loads(step, layer_idx, 1, loads);
    for (size_t e = 0; e < rows.size(); ++e) rows[e] += loads.totals()[e];
  }
  // Nothing was routed: what was known before still holds.
  const bool is_silent = std::all_of(rows.begin(), rows.end(), [](int64_t r) { return r == 0; });
  return is_silent ? rows_before(layer_idx, placement_idx - 1) : rows;
}

std::vector<int64_t> PlacementHistory::rows_for(int64_t cell) const {
  return rows_before(static_cast<int32_t>(cell % trace_.num_layers()),
                     cell / trace_.num_layers() / interval_);
}

void PlacementHistory::place(int64_t cell, const LoadTable& loads,
                             simulate::StepSimulator& simulator) const {
  const auto layer_idx = static_cast<int32_t>(cell % trace_.num_layers());
  const int64_t placement_idx = cell / trace_.num_layers() / interval_;
  simulator.set_history(rows_before(layer_idx, std::max<int64_t>(0, placement_idx - 1)));
  simulator.simulate(loads);  // takes the charge for getting here from the simulator's last cell
  simulator.set_history(rows_for(cell));
}

}  // namespace megaflux::viewer
