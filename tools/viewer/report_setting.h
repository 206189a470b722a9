// ReportSetting: what a report says about one trace: one planner for every cell, and the axes of
// the what-if table. A cell is one layer of one step, numbered step * L + layer index.
//
// Example: 3 steps, 2 layers: cell 3 is step 1, layer index 1.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "megaflux/plan/cost_model.h"
#include "megaflux/trace/trace.h"
#include "simulate/model_shapes.h"
#include "simulate/planner_variant.h"
#include "simulate/step_simulator.h"

namespace megaflux::viewer {

inline constexpr int64_t kMaxDetails = 1000;
// Cells that a step and layer can be named by, and that arrays of the file are indexed with.
inline constexpr int64_t kMaxCells = int64_t{1} << 24;

struct WhatIfAxes {
  std::vector<simulate::PlannerVariant> planners;
  std::vector<int32_t> ranks;
  std::vector<int32_t> slots;
};

// A place in a trace that a person named.
struct CellPlace {
  int32_t layer_idx = 0;
  int64_t step = 0;
};

// What is done and how far: cells planned of all cells.
using ReportProgress = std::function<void(const char* what, int64_t done, int64_t total)>;

struct ReportSetting {
  std::string name;  // of the trace, for people
  // All ranks active, the owner table not empty; predictions need its shape and plan.cost.
  simulate::StepSetting step;
  std::optional<simulate::ModelShape> model;  // of the shape
  MachineModel machine;                       // that plan.cost was made for
  CostScope scope = CostScope::kForward;
  int64_t rows_per_rank = 0;  // counts are scaled to this; 0 = as recorded
  WhatIfAxes what_if;
  std::vector<CellPlace> asked;  // cells whose details are asked for
  int64_t detail_bytes = 0;      // deflated, that details of this trace may take
  int32_t num_threads = 1;
  bool has_times = true;  // planner times are measured, so no two reports are equal with them
  ReportProgress progress = [](const char*, int64_t, int64_t) {};

  int32_t num_ranks() const { return step.plan.dims.num_ranks; }
};

}  // namespace megaflux::viewer
