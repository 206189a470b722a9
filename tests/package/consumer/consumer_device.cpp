// A stranger's program in C++: the step of consumer.cpp, planned by a device. Without one it says
// so and has been linked, which is what a machine without a GPU can show.
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "megaflux/base/device_memory_cuda.h"
#include "megaflux/plan/device_planner_cuda.h"

int main() {
  megaflux::PlanConfig config;
  config.dims = {.num_experts = 3, .num_ranks = 2, .replica_slots = 1, .block_rows = 128};
  megaflux::check_device_config(config);
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("no CUDA device: nothing was planned\n");
    return 0;
  }
  const std::vector<int32_t> rows = {300, 60, 40, 300, 40, 50};  // [P = 2, E = 3]
  const auto loads = megaflux::DeviceMemory::copy_of(0, std::as_bytes(std::span(rows)));
  const megaflux::DevicePlanner planner(config, 0);
  const megaflux::DeviceMemory plan(0, planner.plan_bytes());
  const megaflux::DeviceMemory report(0, sizeof(megaflux::DevicePlanReport));
  planner.launch(reinterpret_cast<const int32_t*>(loads.data()), nullptr, plan.data(),
                 reinterpret_cast<megaflux::DevicePlanReport*>(report.data()), nullptr);
  megaflux::PlanHeader header;
  if (cudaMemcpy(&header, plan.data(), sizeof(header), cudaMemcpyDeviceToHost) != cudaSuccess) {
    return 1;
  }
  std::printf("max %d blocks\n", header.max_blocks);
  return header.max_blocks == 4 ? 0 : 1;
}
