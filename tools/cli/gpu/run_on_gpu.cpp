#include "cli/gpu/run_on_gpu.h"

#include <string>

#include "cli/gpu/gpu_memory.h"
#include "cli/gpu/plan_on_gpu.h"
#include "megaflux/base/check.h"
#include "megaflux/base/math.h"

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
  try {
    // One SM a rank, which any device has: what depends on the device is looked at when it is
    // known.
    resolve_config(gpu_layer(workload, options, task), 1);
  } catch (const Error& error) {
    throw Error(ErrorCode::kUnsupported, std::string(error.what()) + " (--backend cuda)");
  }
}

void check_gpu_memory(const Workload& workload, const RunOptions& options,
                      const ExecutionTask& task, std::span<const GpuRanks> gpus) {
  const int32_t device_sms = gpus.front().device.num_sms;
  const MegaConfig layer =
      resolve_config(gpu_layer(workload, options, task), device_sms / ranks_per_device(options));
  const std::vector<int32_t> device_of = deal_ranks(workload.num_ranks(), options.num_devices);
  DeviceNeeds needs(gpus.size());
  add_weights(layer.shape, workload.owner_of(), device_of, needs);
  add_session(layer, task.plan, device_sms, device_of, needs);
  require_memory("--backend cuda", needs);
}

}  // namespace megaflux::cli
