#include "cli/bench/forward_bench.h"
#include "cli/bench/head_bench.h"
#include "cli/calibrate/calibrate_on_gpu.h"
#include "cli/gpu/gpu_backend.h"
#include "cli/gpu/plan_on_gpu.h"
#include "cli/gpu/run_on_gpu.h"

namespace megaflux::cli {

bool has_cuda() {
  return false;
}

GpuFacts probe_gpus() {
  check_has_cuda("--backend cuda");
  return {};
}

void check_plans_on_gpu(const PlanConfig&) {
  check_has_cuda("--backend cuda");
}

GpuPlan plan_on_gpu(const PlanConfig&, int32_t, const LoadTable&, std::span<const int32_t>) {
  check_has_cuda("--backend cuda");
  return {};
}

int64_t free_memory(int32_t) {
  check_has_cuda("--backend cuda");
  return 0;
}

std::unique_ptr<LayerRun> make_gpu_run(const Workload&, const RunOptions&, const ExecutionTask&,
                                       Execution&) {
  check_has_cuda("--backend cuda");
  return nullptr;
}

HeadBenchFigures bench_head(const HeadBenchCase&) {
  check_has_cuda("bench head");
  return {};
}

ForwardBenchFigures bench_forward(const ForwardBenchCase&) {
  check_has_cuda("bench forward");
  return {};
}

MachineModel calibrate_on_gpu(const CalibrationCase&) {
  check_has_cuda("calibrate");
  return {};
}

void serve_forward(const ForwardBenchCase&, std::istream&, std::ostream&) {
  check_has_cuda("bench forward");
}

}  // namespace megaflux::cli
