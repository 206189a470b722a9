// `run --backend cuda`: which ranks of the layer stand on which device, what a device refuses, and
// the session that executes one placement there.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cli/gpu/gpu_backend.h"
#include "cli/run/execution.h"
#include "megaflux/layer/mega/mega_config.h"

namespace megaflux::cli {

// The ranks that one device hosts.
struct GpuRanks {
  int32_t ordinal = 0;
  GpuDevice device;
  int32_t first_rank = 0;
  int32_t num_ranks = 0;

  // They take turns on one device, so times say nothing of peers.
  bool are_virtual() const { return num_ranks > 1; }
};

// [--devices] of this machine. Throws kBadInput or kUnsupported as require_gpu() does.
std::vector<GpuRanks> require_gpus(const RunOptions& options);

// The most ranks on a device.
int32_t ranks_per_device(const RunOptions& options);
// The layer of an execution, not resolved.
MegaConfig gpu_layer(const Workload& workload, const RunOptions& options,
                     const ExecutionTask& task);
// Throws kUnsupported or kBadInput naming what no device does, its value and the limit.
void check_runs_on_gpu(const Workload& workload, const RunOptions& options,
                       const ExecutionTask& task);

// Throws as require_memory() if one of `gpus`, all that require_gpus() has found, has too little
// memory for its ranks; allocates nothing.
void check_gpu_memory(const Workload& workload, const RunOptions& options,
                      const ExecutionTask& task, std::span<const GpuRanks> gpus);

// The session of one execution, which says in `execution` what it costs. Workload, options and task
// outlive it. A pass is a head and a forward, which pulls what the plan wants in the slots. Throws
// kUnsupported without CUDA.
std::unique_ptr<LayerRun> make_gpu_run(const Workload& workload, const RunOptions& options,
                                       const ExecutionTask& task, Execution& execution);

}  // namespace megaflux::cli
