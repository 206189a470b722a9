// sweep: planners x ranks x slots x rows over the steps and layers of a trace, as distributions.
//
// Example: a trace of 10 steps and 3 layers, planners {fixed, megaflux}, ranks {8, 64}, slots {2},
// rows {0}: 2 x 2 rows, each over 30 cells (a cell is one step of one layer). With 2 threads the
// rows are the same as with 1, but for plan_us, which is measured.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "megaflux/plan/cost_model.h"
#include "megaflux/plan/planner.h"
#include "megaflux/trace/trace.h"
#include "simulate/distribution.h"
#include "simulate/model_shapes.h"
#include "simulate/planner_variant.h"

namespace megaflux::simulate {

struct Cell {
  int32_t layer_idx = 0;
  int64_t step = 0;
  friend bool operator==(const Cell&, const Cell&) = default;
};

// Which cells of a trace are looked at.
struct CellSelection {
  std::vector<int32_t> layers = {};  // indices, ascending; empty = all
  int64_t first_step = 0;
  int64_t end_step = -1;  // -1 = to the end of the trace
  int64_t num_cases = 0;  // drawn from `seed` where there are more; 0 = all
  uint64_t seed = 1;
};

// By layer, then step. Throws kBadInput if the trace has no such layer or step.
std::vector<Cell> select_cells(const Trace& trace, const CellSelection& selection);

struct SweepConfig {
  std::vector<PlannerVariant> planners;
  std::vector<int32_t> ranks = {8};
  std::vector<int32_t> slots = {2};
  std::vector<int64_t> rows_per_rank = {0};  // counts are scaled to these; 0 = as recorded
  // Objective, block_rows, slack and the like; E, P, s, owners and cost are filled in.
  PlanConfig plan;
  std::optional<ModelShape> model;  // for bytes and predictions
  MachineModel machine;
  CostScope scope = CostScope::kForward;
  // Owner table of every layer of the trace, [L][E], for a single number of ranks; empty =
  // contiguous.
  std::vector<std::vector<int32_t>> owners = {};
  // Steps between two placements by history; 0 = by history_interval_of. A placement sees the rows
  // since the one before.
  int64_t history_interval = 0;
  int32_t num_threads = 1;
  // Called now and then with plans done and to do, from one thread at a time.
  std::function<void(int64_t done, int64_t total)> on_progress = {};
};

// That of the config; its 0 means 1000 steps, which SGLang ships, or a quarter of the trace if that
// is less.
int64_t history_interval_of(const Trace& trace, const SweepConfig& config);

struct LayerBalance {
  int32_t layer_idx = 0;
  Distribution imbalance_fixed;
  Distribution imbalance;
  friend bool operator==(const LayerBalance&, const LayerBalance&) = default;
};

// One setting over all its cells. Figures of a step as in step_simulator.h; what is null there is
// null here.
struct SweepRow {
  PlannerVariant planner;
  int32_t num_ranks = 0;
  int32_t replica_slots = 0;
  int64_t rows_per_rank = 0;
  int64_t num_cells = 0;           // with a plan
  int64_t cells_without_plan = 0;  // orphans
  // By history: cells before the first one, under an even placement, and placements made later.
  int64_t cells_before_history = 0;
  int64_t num_placements = 0;

  // Of the loads alone.
  Distribution total_rows;
  Distribution kappa;
  Distribution max_violation;  // most rows of an expert / mean - 1
  // Fixed placement.
  Distribution imbalance_fixed;
  Distribution peak_rows_fixed;
  std::optional<Distribution> remote_rows_fixed;
  std::optional<Distribution> pair_rows_fixed;
  std::optional<Distribution> fixed_us;
  std::optional<Distribution> ideal_us;
  std::optional<Distribution> second_ideal_us;
  // The plan.
  Distribution imbalance;
  double mean_balancedness_fixed = 1;  // mean over max rows of a rank
  double mean_balancedness = 1;
  // By history the mean is over all steps from the first to the last one looked at.
  Distribution copies;
  Distribution replicas;
  Distribution moved_rows;
  Distribution peak_rows;
  Distribution plan_us;
  std::optional<Distribution> remote_rows;
  std::optional<Distribution> pair_rows;
  std::optional<Distribution> planned_us;
  std::vector<LayerBalance> layers;

  int32_t slots_needed = 0;
  bool is_over_budget = false;  // slots_needed > replica_slots
  bool moves_owners = false;    // in every step anew, which no executor does
  // Bytes of one expert in a slot, and of all slots of a rank: shared by the layers, or one set a
  // layer. A placement by history has to be there in every layer, so it cannot share.
  std::optional<int64_t> slot_bytes;
  std::optional<int64_t> slot_memory_bytes;
  std::optional<int64_t> unshared_memory_bytes;
  // Of the times of all cells together.
  std::optional<double> speedup;                // fixed / planned
  std::optional<double> share_of_ideal;         // ideal / planned
  std::optional<double> share_of_second_ideal;  // second ideal / planned
  // Over the rows_per_rank of the sweep: the least from which on the planner is predicted to beat
  // fixed placement at every one; null = never, or no prediction, or one rows_per_rank alone.
  std::optional<int64_t> break_even_rows;
  bool is_best = false;  // of its ranks and rows, among those that run as configured
};

// Rows by (ranks, rows_per_rank, slots, planner) in the order of the config. Throws kBadInput
// naming what does not fit the trace.
std::vector<SweepRow> sweep(const Trace& trace, const std::vector<Cell>& cells,
                            const SweepConfig& config);

}  // namespace megaflux::simulate
