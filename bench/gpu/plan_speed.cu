// How long does the device planner take? For each case a graph of equal launches is replayed; the
// time of a launch is that of the graph divided by the launches in it, the median of the replays.
//
//   plan_speed [--commit HASH] [--out FILE]
// The cases are those of planner_cases.bin beside the program, which planner_case_file writes.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "case_file.h"
#include "gpu_result_cuda.h"
#include "megaflux/base/check_cuda.h"
#include "megaflux/base/device_memory_cuda.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/scale_counts.h"
#include "megaflux/plan/device_planner_cuda.h"

namespace megaflux::bench {
namespace {

constexpr int kLaunches = 50;  // in a graph
constexpr int kReplays = 7;
constexpr size_t kEvery = 8;  // of the cases one is taken
constexpr int64_t kRowsPerRank = 65'536;

struct Setting {
  PlannerKind planner;
  Objective objective;
  int32_t num_experts;
  int32_t num_ranks;
  bool is_balanced;
};

// Microseconds of one launch.
double launch_us(const DevicePlanner& planner, const LoadTable& loads, cudaStream_t stream) {
  const DeviceMemory rows = DeviceMemory::copy_of(0, std::as_bytes(loads.rows()));
  DeviceMemory plan(0, round_up(planner.plan_bytes(), size_t{16}) + sizeof(DevicePlanReport));
  auto* report =
      reinterpret_cast<DevicePlanReport*>(plan.data() + round_up(planner.plan_bytes(), size_t{16}));
  cudaGraph_t graph = nullptr;
  MF_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < kLaunches; ++i) {
    planner.launch(reinterpret_cast<const int32_t*>(rows.data()), nullptr, plan.data(), report,
                   stream);
  }
  MF_CUDA(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec = nullptr;
  MF_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  cudaEvent_t begin = nullptr, end = nullptr;
  MF_CUDA(cudaEventCreate(&begin));
  MF_CUDA(cudaEventCreate(&end));
  std::vector<double> samples;
  for (int i = 0; i <= kReplays; ++i) {
    MF_CUDA(cudaEventRecord(begin, stream));
    MF_CUDA(cudaGraphLaunch(exec, stream));
    MF_CUDA(cudaEventRecord(end, stream));
    MF_CUDA(cudaEventSynchronize(end));
    float ms = 0;
    MF_CUDA(cudaEventElapsedTime(&ms, begin, end));
    if (i > 0) samples.push_back(1e3 * ms / kLaunches);
  }
  MF_CUDA(cudaEventDestroy(begin));
  MF_CUDA(cudaEventDestroy(end));
  MF_CUDA(cudaGraphExecDestroy(exec));
  MF_CUDA(cudaGraphDestroy(graph));
  return median_of(samples);
}

PlanConfig config_of(const Setting& setting) {
  PlanConfig config;
  config.planner = setting.planner;
  config.objective = setting.objective;
  config.dims = {setting.num_experts, setting.num_ranks, 2, 128};
  LayerShape shape;
  shape.num_experts = setting.num_experts;
  shape.topk = 8;
  shape.hidden = 7168;
  shape.inter = 2048;
  config.cost = make_cost_model(machine_model("h200"), shape, 128, CostScope::kForward);
  return config;
}

void measure(const CaseCounts& cases, const Setting& setting, const GpuOptions& options) {
  cudaStream_t stream = nullptr;
  MF_CUDA(cudaStreamCreate(&stream));
  const int64_t total = kRowsPerRank * setting.num_ranks;
  const DevicePlanner planner(config_of(setting), 0, total);
  std::vector<double> samples;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (static_cast<int32_t>(cases[i].size()) != setting.num_experts || i % kEvery != 0) continue;
    std::vector<int32_t> counts(cases[i].begin(), cases[i].end());
    if (setting.is_balanced) std::fill(counts.begin(), counts.end(), 1000);
    LoadTable loads;
    loads.assign_totals(setting.num_ranks, scale_counts(counts, total, INT32_MAX));
    samples.push_back(launch_us(planner, loads, stream));
    if (setting.is_balanced && samples.size() == kReplays) break;
  }
  MF_CUDA(cudaStreamDestroy(stream));
  std::ostringstream key;
  key << "op=plan,E=" << setting.num_experts << ",P=" << setting.num_ranks
      << ",s=2,route=" << (setting.is_balanced ? "balanced" : "recorded")
      << ",planner=" << planner_name(setting.planner)
      << ",objective=" << objective_name(setting.objective);
  report(options, {"plan_kernel_us", "us", key.str(), samples});
}

void run(const GpuOptions& options) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  const CaseCounts cases = read_case_file(program.parent_path() / "planner_cases.bin");
  using enum PlannerKind;
  using enum Objective;
  for (const Setting& setting : {Setting{kFixed, kForward, 128, 8, false},
                                 {kMegaflux, kForward, 128, 8, false},
                                 {kMegaflux, kForward, 256, 8, false},
                                 {kMegaflux, kForward, 256, 64, false},
                                 {kPaper, kForward, 256, 8, false},
                                 {kPaper, kForward, 256, 64, false},
                                 {kMegaflux, kBackward, 256, 8, false},
                                 {kMegaflux, kCost, 256, 8, false},
                                 {kMegaflux, kCost, 256, 64, false},
                                 {kQuota, kForward, 256, 8, false},
                                 {kMegaflux, kForward, 128, 8, true},
                                 {kMegaflux, kCost, 128, 8, true},
                                 {kMegaflux, kCost, 256, 64, true}}) {
    measure(cases, setting, options);
  }
}

}  // namespace
}  // namespace megaflux::bench

int main(int argc, char** argv) {
  return megaflux::bench::run_gpu_benchmark(argc, argv, megaflux::bench::run);
}
