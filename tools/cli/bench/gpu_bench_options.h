// What the benches of GPUs have in common: the options that name ranks, experts and routing, what
// is made of them, and where the results go.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/bench_record.h"
#include "cli/gpu/gpu_backend.h"
#include "cli/option_names.h"
#include "cli/plan/plan_options.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/route_family.h"

namespace megaflux::cli {

struct GpuBenchOptions {
  PlanOptions plan;
  int32_t num_experts = 128;
  int32_t topk = 8;
  int32_t tokens = 4096;  // a rank
  int32_t num_devices = 1;
  uint64_t seed = 1;
  std::string route = "zipf-k3";
  std::string trace;  // whose counts a real-* family scales; empty = the one that comes with it
  std::string commit;
  std::string json_target;
  std::string results_file;

  // True if every rank has a device of its own.
  bool is_real() const { return num_devices == plan.num_ranks; }
};

// All of them; those of the planner and of the layer's cost included.
void add_gpu_bench_options(CLI::App& app, GpuBenchOptions& options);

// Fields that these options fill.
OptionNames gpu_bench_names();

// Every check that needs no device; `outputs` are those of the command besides --json and --out.
// Throws kBadInput naming option, value and limit.
void check_gpu_bench(const GpuBenchOptions& options, std::vector<NamedFile> outputs = {});
// The last of the devices that `options` ask for. Throws kUnsupported naming `command` where it
// cannot run.
GpuDevice require_gpus(const std::string& command, const GpuBenchOptions& options);

// The routing that is asked for, or that of another family over as many rows.
RouteRequest route_request(const GpuBenchOptions& options, RouteFamily family);
// Makes it, with the counts of --trace for a real-* family. Throws kBadInput naming --route.
RouteSet bench_routes(const GpuBenchOptions& options, const RouteRequest& request);

BenchSource gpu_source(const GpuBenchOptions& options, const GpuDevice& device,
                       const std::vector<std::string>& arguments);
// To --json and --out, figure by figure.
struct FigureLine {
  Figure figure;
  std::string case_name;
  bool is_predicted = false;  // its plan minimises predicted time, which depends on a machine
};
void write_figures(const GpuBenchOptions& options, const std::vector<FigureLine>& lines,
                   const BenchSource& source);

}  // namespace megaflux::cli
