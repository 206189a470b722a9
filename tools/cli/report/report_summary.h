// What `megaflux report` says about the report it made, for people and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/json_output.h"
#include "viewer/trace_report.h"

namespace megaflux::cli {

struct TraceSummary {
  std::string name;
  Json setting;  // as in the report
  viewer::TraceOverview overview;
};

struct ReportSummary {
  std::string output;
  uint64_t bytes = 0;
  double seconds = 0;
  std::vector<TraceSummary> traces = {};
};

void print_summary(const ReportSummary& summary);
// Schema megaflux.report-summary/1, docs/cli.md.
Json summary_json(const ReportSummary& summary);

}  // namespace megaflux::cli
