// The result of `megaflux run`, for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cli/gpu/run_on_gpu.h"
#include "cli/json_output.h"
#include "cli/run/checks.h"

namespace megaflux::cli {

struct RunResult {
  const Workload* workload = nullptr;
  const RunOptions* options = nullptr;
  std::vector<GpuRanks> gpus;  // where the ranks stand; none on the CPU
  RunOutcome outcome;
  std::vector<Check> checks;
  double seconds = 0;  // of the whole run

  // Exit status 0: all checks hold, and if a fault was injected, that is not so.
  bool is_good() const { return all_hold(checks) && options->fault.empty(); }
};

// What a reader must know of a run on GPUs, a line each.
std::vector<std::string> run_notes(const RunResult& result);
// Time of the compute role of each rank, both passes, nanoseconds.
std::vector<int64_t> compute_ns(const Execution& execution);
// Bytes of one kind over all ranks, both passes.
int64_t moved_bytes(const Execution& execution, Traffic kind);
// Rows over all instances in replica slots, [P], of the forward.
std::vector<int64_t> rows_from_slots(const Execution& execution);

// The object of schema megaflux.run/1.
Json run_json(const RunResult& result);
void print_run(const RunResult& result);
// The closing line, also for runs whose report is JSON: "All 22 checks hold", or what failed.
std::string verdict_line(const RunResult& result);

}  // namespace megaflux::cli
