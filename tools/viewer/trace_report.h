// TraceReport: everything that a report says about one trace: members of its JSON, arrays in the
// blob, and the figures that sum it up. docs/report_format.md lists the members.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "megaflux/trace/trace.h"
#include "simulate/distribution.h"
#include "viewer/array_blob.h"
#include "viewer/report_setting.h"
#include "viewer/what_if.h"

namespace megaflux::viewer {

// The trace in a few numbers, over all cells.
struct TraceOverview {
  int64_t num_cells = 0;
  int64_t num_details = 0;
  std::string details_text;
  simulate::Distribution imbalance_before;
  simulate::Distribution imbalance_after;
  double copies = 0;  // mean, as all that follow
  std::optional<double> fixed_us;
  std::optional<double> planned_us;
  std::optional<double> ideal_us;
  std::optional<WhatIfRow> best;  // of the ranks of the report
};

struct TraceReport {
  Json json;
  TraceOverview overview;
};

// Plans every cell, chooses and plans the details, fills the what-if table. Arrays go into `blob`.
// Throws kBadInput if an asked cell is not in the trace or the trace has more than kMaxCells cells.
TraceReport report_trace(const Trace& trace, const ReportSetting& setting, ArrayBlob& blob);

}  // namespace megaflux::viewer
