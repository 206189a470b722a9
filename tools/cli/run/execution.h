// Executes the layer once with one placement and keeps what the checks compare.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/progress.h"
#include "cli/run/workload.h"
#include "megaflux/layer/mega/mega_support.h"
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

// What an execution on GPUs adds.
struct GpuFigures {
  MegaMemory memory;         // of the rank with most experts
  int64_t head_bytes = 0;    // of a rank's heap: the head's tables and the protocol's words
  std::string plan_differs;  // how a head's plan differs from that of the host; empty = nowhere
  int64_t total() const { return memory.total() + head_bytes; }
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
  int32_t num_passes = 0;         // executions made
  bool is_repeatable = true;      // all repeats gave the same bits
  RankMemory memory;              // on the CPU
  std::optional<GpuFigures> gpu;  // on GPUs
  int64_t pool_rows = 0;          // C
  std::string gemm;

  bool has_finished() const { return failure.empty(); }
  bool has_backward() const { return !backward.ranks.empty(); }
  int64_t memory_bytes() const { return gpu ? gpu->total() : memory.total(); }
};

// A session made for one execution.
class LayerRun {
 public:
  virtual ~LayerRun() = default;
  // One pass: the forward and, if asked, its backward, into poisoned outputs. False if it ended
  // early; `failure` then says why.
  virtual bool run_once(Execution& execution) = 0;
};

// What the execution will run, to see beforehand what it takes and whether a fault can act; empty
// if there is no legal plan.
Plan preview_plan(const Workload& workload, const ExecutionTask& task);

// "no legal plan, ..." of a report without one.
std::string no_plan_text(const PlanReport& report);

// How long a rank waits for another: --deadline, or what the layer takes at a rate that a busy
// machine still reaches. Some waits last as long as the whole layer.
std::chrono::milliseconds wait_deadline(const Workload& workload, const RunOptions& options,
                                        double slow_flops_per_second);

// On the backend of the options. Throws kBadInput if the options do not fit the workload.
Execution execute(const Workload& workload, const RunOptions& options, const ExecutionTask& task,
                  const std::function<void(const std::string&)>& on_step);

}  // namespace megaflux::cli
