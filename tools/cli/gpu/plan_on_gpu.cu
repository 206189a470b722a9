#include "cli/gpu/plan_on_gpu.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <span>
#include <vector>

#include "megaflux/base/check_cuda.h"
#include "megaflux/base/device_memory_cuda.h"
#include "megaflux/plan/device_planner_cuda.h"

namespace megaflux::cli {

void check_plans_on_gpu(const PlanConfig& config) {
  check_device_config(config);
}

GpuPlan plan_on_gpu(const PlanConfig& config, int32_t device, const LoadTable& loads,
                    std::span<const int32_t> resident) {
  const CurrentDevice current(device);
  // As a session with steps of this size would have it.
  const DevicePlanner planner(config, device, std::max<int64_t>(1, loads.total_rows()));
  const DeviceMemory rows = DeviceMemory::copy_of(device, std::as_bytes(loads.rows()));
  const DeviceMemory held =
      resident.empty() ? DeviceMemory() : DeviceMemory::copy_of(device, std::as_bytes(resident));
  const DeviceMemory plan(device, planner.plan_bytes());
  const DeviceMemory told(device, sizeof(DevicePlanReport));
  auto* const device_report = reinterpret_cast<DevicePlanReport*>(told.data());
  planner.launch(reinterpret_cast<const int32_t*>(rows.data()),
                 reinterpret_cast<const int32_t*>(held.data()), plan.data(), device_report,
                 cudaStreamPerThread);
  MF_CUDA(cudaStreamSynchronize(cudaStreamPerThread));
  DevicePlanReport report;
  MF_CUDA(cudaMemcpy(&report, device_report, sizeof(report), cudaMemcpyDeviceToHost));
  MF_CHECK(report.status != DevicePlanStatus::kTooManyRows, "LOADS: ", describe(report));
  GpuPlan result{.plan = {}, .gate = report.gate, .tau = report.tau};
  if (report.status == DevicePlanStatus::kOrphans) return result;
  std::vector<std::byte> bytes(planner.plan_bytes());
  MF_CUDA(cudaMemcpy(bytes.data(), plan.data(), bytes.size(), cudaMemcpyDeviceToHost));
  result.plan = Plan::from_bytes(bytes);
  return result;
}

}  // namespace megaflux::cli
