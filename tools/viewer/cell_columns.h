// What a planner does to every cell of a trace, one column a figure; column entry c is cell c.
//
// Example, two steps of one layer on two ranks, blocks of one row, one slot: rows {{8, 0}, {6, 2}},
// owners {0, 1}. Cell 0 has imbalance_before 2 (all rows on rank 0) and imbalance_after 1: one
// replica of expert 0 on rank 1 takes 4 rows, so copies 1 and moved_rows 4. Cell 1 has the same
// replica again, with 2 rows: churn 0.
#pragma once

#include <cstdint>
#include <vector>

#include "megaflux/trace/trace.h"
#include "viewer/report_setting.h"

namespace megaflux::viewer {

// Churn of a cell without a previous step.
inline constexpr uint16_t kNoPreviousStep = 65535;

// Columns that a trace or setting has no figures for are empty.
struct CellColumns {
  std::vector<uint32_t> rows;
  std::vector<float> kappa;
  std::vector<float> imbalance_before;
  std::vector<float> imbalance_after;
  std::vector<float> tau_ratio;  // most blocks of a rank over the least that is possible
  std::vector<uint16_t> copies;
  // Instances away from their owner that the step before did not have in this layer.
  std::vector<uint16_t> churn;
  std::vector<uint32_t> moved_rows;
  std::vector<float> moved_bytes;
  std::vector<uint32_t> remote_before;
  std::vector<uint32_t> remote_after;
  std::vector<uint32_t> peak_before;
  std::vector<uint32_t> peak_after;
  std::vector<float> fixed_us;
  std::vector<float> planned_us;
  std::vector<float> ideal_us;
  std::vector<float> second_ideal_us;
  std::vector<float> plan_us;  // host time of the planner call, measured
};

// Plans every cell, on setting.num_threads threads; the same columns for any number of them, but
// for plan_us.
CellColumns plan_cells(const Trace& trace, const ReportSetting& setting);

}  // namespace megaflux::viewer
