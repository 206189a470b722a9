// Figures of many cells, kept as columns of fp32 until they are summed up: 4 bytes a figure and
// cell, 36 bytes a cell and planner.
#pragma once

#include <cstdint>
#include <vector>

#include "simulate/step_simulator.h"
#include "simulate/sweep.h"

namespace megaflux::simulate {

// What all planners share: the loads and fixed placement.
struct LoadSamples {
  explicit LoadSamples(size_t num_cells);
  void set(size_t cell, const LoadTable& loads, const StepFigures& figures);
  void summarise(SweepRow& row) const;

  std::vector<float> total_rows, kappa, max_violation, imbalance, peak_rows;
  std::vector<float> remote_rows, pair_rows;               // -1 = null
  std::vector<float> fixed_us, ideal_us, second_ideal_us;  // -1 = null
};

// What one planner did.
struct PlanSamples {
  explicit PlanSamples(size_t num_cells);
  void set(size_t cell, const StepFigures& figures);
  void summarise(SweepRow& row) const;

  std::vector<float> imbalance, copies, replicas, moved_rows, peak_rows, plan_us;
  std::vector<float> remote_rows, pair_rows, planned_us;  // -1 = null
  std::vector<int32_t> slots_needed;                      // -1 = no plan
  std::vector<uint8_t> moves_owners;
};

// `cells` are by layer.
std::vector<LayerBalance> balance_by_layer(const std::vector<Cell>& cells, const LoadSamples& loads,
                                           const PlanSamples& plans);

}  // namespace megaflux::simulate
