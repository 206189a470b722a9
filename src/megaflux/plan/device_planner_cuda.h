// DevicePlanner: a planner on one device. It makes the plans that make_planner(config) makes on the
// host, byte for byte, from a load table in device memory, without the host.
//
// Limits of the device: E <= 1024, P <= 128, s <= 8; planners megaflux, paper, quota and fixed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "megaflux/base/device_memory_cuda.h"
#include "megaflux/plan/device_planner_params.h"
#include "megaflux/plan/planner.h"

namespace megaflux {

// Throws kUnsupported naming the argument, its value and the device's limit if a device cannot plan
// under `config`.
void check_device_config(const PlanConfig& config);

// What the error of a report says, naming the limit; empty if there is none.
std::string describe(const DevicePlanReport& report);

class DevicePlanner {
 public:
  // Checks the config and brings its tables to `device`. `max_rows`: most rows of all ranks in one
  // step, [1, 2^31 - 1]; a step with more is refused where it does not fit the numbers chosen for
  // it. Throws kBadInput, kUnsupported, or kInternal with CUDA's words.
  DevicePlanner(PlanConfig config, int32_t device, int64_t max_rows = INT32_MAX);

  const PlanConfig& config() const { return config_; }
  // config_hash(config()), found once.
  uint64_t hash() const { return hash_; }
  int64_t max_rows() const { return max_rows_; }
  // What a kernel of one's own passes to plan_on_device (planner_device.cuh), valid as long as this
  // object.
  const DevicePlannerParams& params() const { return params_; }
  size_t plan_bytes() const { return PlanLayout(params_.dims).total_bytes; }

  // Plans one step on `stream` of the planner's device: `loads` [P, E] rows by source, `resident`
  // [P s] or null, `plan` plan_bytes(), 16-byte aligned, all in memory of the device. One kernel;
  // no allocation, no wait, may be captured in a graph. Several may be in flight.
  void launch(const int32_t* loads, const int32_t* resident, std::byte* plan,
              DevicePlanReport* report, cudaStream_t stream) const;

 private:
  PlanConfig config_;
  uint64_t hash_ = 0;
  int64_t max_rows_ = 0;
  int32_t device_ = 0;
  DeviceMemory tables_;
  DevicePlannerParams params_;
};

}  // namespace megaflux
