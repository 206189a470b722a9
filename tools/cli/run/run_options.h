// The options of `megaflux run`.
#pragma once

#include <cstdint>
#include <string>

#include "cli/load_input.h"
#include "cli/plan/plan_options.h"

namespace megaflux::cli {

struct RunOptions {
  PlanOptions plan;
  // Routing: a step of a trace, or a route family.
  std::string trace;  // empty = the default trace
  TraceStep where;
  int64_t num_tokens = 0;   // over all ranks; 0 = the trace's, or 1024 a rank of a family
  std::string route;        // empty = from the trace
  int32_t num_experts = 0;  // of a family; 0 = 64
  int32_t topk = 0;         // of a family; 0 = 6
  uint64_t seed = 1;
  // Execution.
  std::string backend = "cpu";
  int32_t num_devices = 1;  // GPUs, from ordinal 0 on
  bool is_devices_given = false;
  int64_t capacity_rows = 0;  // pool rows a rank; 0 = enough for any step
  std::string z = "saved";
  bool is_z_given = false;
  bool is_backward_asked = false;  // the default, spelled out
  bool is_forward_only = false;
  std::string plan_file;
  std::string fault;
  double deadline_seconds = 0;  // 0 = by the size of the layer
  std::string json_target;

  bool is_on_gpu() const { return backend == "cuda"; }
  // GPUs do the forward alone so far.
  bool has_backward() const { return !is_forward_only && !is_on_gpu(); }
};

const Choices& route_choices();
const Choices& fault_choices();

void add_run_options(CLI::App& app, RunOptions& options);
// Combinations that cannot be. Throws kBadInput naming both options.
void check_combination(const RunOptions& options);

}  // namespace megaflux::cli
