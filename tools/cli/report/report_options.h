// What `megaflux report` is told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/plan/plan_options.h"
#include "megaflux/trace/trace.h"
#include "viewer/report_setting.h"

namespace megaflux::cli {

inline constexpr size_t kMaxReportTraces = 4;
inline constexpr int32_t kMaxReportThreads = 1024;

struct ReportOptions {
  std::vector<std::string> traces;
  std::string output;
  PlanOptions plan;
  std::string model;  // empty = no shape
  int64_t rows_per_rank = 0;
  std::vector<std::string> details;  // "L:S"
  std::string what_if_planners = "all";
  std::string what_if_ranks;            // empty = half, as many and twice as many as --ranks
  std::string what_if_slots = "1,2,4";  // and --slots
  int32_t num_threads = 0;              // 0 = one for each core
  bool no_times = false;
  std::string json_target;
};

void add_report_options(CLI::App& app, ReportOptions& options);

// The trace files, 1 to kMaxReportTraces. Checks them, the output and every option that needs no
// trace. Throws kBadInput naming option, value and limit.
std::vector<std::string> check_report_options(const ReportOptions& options);

// What the options mean for one trace of `num_traces`.
viewer::ReportSetting report_setting_of(const ReportOptions& options, const std::string& file,
                                        const Trace& trace, size_t num_traces);

}  // namespace megaflux::cli
