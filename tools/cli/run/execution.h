// Executes the layer once with one placement and keeps what the checks compare.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cli/progress.h"
#include "cli/run/workload.h"
#include "megaflux/layer/reference/reference.h"
#include "megaflux/plan/plan_stats.h"
#include "megaflux/session/session.h"

namespace megaflux::cli {

// What one execution is told.
struct ExecutionTask {
  std::string name;   // "fixed" or "replicated"
  PlanConfig plan;    // fixed placement: planner kFixed and no slots
  Plan outside_plan;  // empty = plan
  Fault fault = Fault::kNone;
  int32_t repeats = 1;  // executions; the last one is measured, all must agree bitwise
  // Gradient entries to keep; empty = keep all gradients.
  std::span<const GradientEntry> entries;
};

struct LayerOutputs {
  std::vector<Buffer> y;                // [P], [T_p, H] each, of the layer's dtype
  std::vector<Buffer> dx;               // [P], as y; empty without backward
  std::vector<std::vector<float>> dp;   // [P], [T_p, K]
  std::vector<std::vector<float>> dw1;  // [P], [E_local, 2I, H]; empty once entries are taken
  std::vector<std::vector<float>> dw2;  // [P], [E_local, H, I]
  std::vector<double> entries;          // values of the task's entries, in their order
};

// Bytes that a session allocates for one rank; the caller's tensors are not among them.
struct RankMemory {
  LayerMemory layer;
  int64_t z = 0;  // Z kept from forward to backward
  int64_t total() const { return layer.total() + z; }
};

struct Execution {
  std::string name;
  std::string failure;  // why it ended early: a bounded wait, or no legal plan; empty = it finished
  Plan plan;
  PlanReport report;
  PlanStats stats;
  StepReport forward;
  StepReport backward;  // without ranks if there is none
  LayerOutputs outputs;
  int32_t num_passes = 0;     // executions made
  bool is_repeatable = true;  // all repeats gave the same bits
  RankMemory memory;
  int64_t pool_rows = 0;  // C
  std::string gemm;

  bool has_finished() const { return failure.empty(); }
  bool has_backward() const { return !backward.ranks.empty(); }
};

// Throws kBadInput if the options do not fit the workload.
Execution execute(const Workload& workload, const RunOptions& options, const ExecutionTask& task,
                  const std::function<void(const std::string&)>& on_step);

}  // namespace megaflux::cli
