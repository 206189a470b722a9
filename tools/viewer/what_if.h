// The what-if table: planner x slots x ranks over a sample of a trace's cells, by simulate/sweep.h.
//
// Example: planners fixed and megaflux, 8 ranks, slots 1 and 2 make three rows, since fixed
// placement has no use for slots.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megaflux/trace/trace.h"
#include "simulate/sweep.h"
#include "viewer/report_setting.h"

namespace megaflux::viewer {

// Plans that a table may take for its figures; the sample is as large as that allows. A number of
// plans and no time, so that equal input gives an equal table on any machine.
inline constexpr int64_t kWhatIfPlans = 8192;
inline constexpr int64_t kLeastSample = 16;
inline constexpr int64_t kMostSample = 256;

struct WhatIfRow {
  simulate::SweepRow figures;  // replica_slots 0 for fixed placement
  // Least rows a rank at which the plan is predicted to be faster than fixed placement.
  std::optional<int64_t> break_even_rows;
};

struct WhatIfTable {
  int64_t num_cells = 0;  // of the sample
  std::string text;       // about the sample, for people
  std::vector<WhatIfRow> rows;
};

WhatIfTable what_if(const Trace& trace, const ReportSetting& setting);

// "megaflux, 2 slots, 8 ranks".
std::string what_if_label(const WhatIfRow& row);

}  // namespace megaflux::viewer
