#include "cli/gpu/run_on_gpu.h"

#include "cli/gpu/plan_on_gpu.h"
#include "megaflux/base/check.h"
#include "megaflux/base/math.h"
#include "megaflux/comm/device_context.h"

namespace megaflux::cli {

std::vector<GpuRanks> require_gpus(const RunOptions& options) {
  std::vector<GpuRanks> all;
  const std::vector<int32_t> device_of = deal_ranks(options.plan.num_ranks, options.num_devices);
  for (int32_t rank = 0; rank < options.plan.num_ranks; ++rank) {
    const int32_t ordinal = device_of[rank];
    if (all.empty() || all.back().ordinal != ordinal) {
      all.push_back({.ordinal = ordinal,
                     .device = require_gpu("--backend cuda", ordinal),
                     .first_rank = rank,
                     .num_ranks = 0});
    }
    ++all.back().num_ranks;
  }
  return all;
}

int32_t ranks_per_device(const RunOptions& options) {
  return ceil_div(options.plan.num_ranks, options.num_devices);
}

MegaConfig gpu_layer(const Workload& workload, const RunOptions& options,
                     const ExecutionTask& task) {
  return {.shape = workload.shape(),
          .num_ranks = workload.num_ranks(),
          .most_owned = workload.most_owned(),
          .replica_slots = task.plan.dims.replica_slots,
          .max_tokens = workload.max_tokens(),
          .pool_rows = options.capacity_rows};
}

void check_runs_on_gpu(const Workload& workload, const RunOptions& options,
                       const ExecutionTask& task) {
  check_plans_on_gpu(task.plan);
  MF_CHECK(ranks_per_device(options) <= kMaxLocalRanks, "--devices: ", options.num_devices,
           " for --ranks ", options.plan.num_ranks, ", a device hosts at most ", kMaxLocalRanks);
  // One SM a rank, which any device has: what depends on the device is looked at when it is known.
  const MegaSupport support = supports(gpu_layer(workload, options, task), 1);
  if (!support.is_supported()) {
    throw_error(ErrorCode::kUnsupported, "--backend cuda: ", support.missing.front());
  }
}

}  // namespace megaflux::cli
