#include "cli/gpu/gpu_backend.h"

#include "megaflux/base/check.h"
#include "megaflux/base/math.h"
#include "megaflux/comm/device_context.h"

namespace megaflux::cli {

void check_has_cuda(const std::string& asker) {
  if (has_cuda()) return;
  throw_error(ErrorCode::kUnsupported, asker,
              ": needs a build with CUDA, and this one has none; configure with MEGAFLUX_CUDA=ON "
              "(cmake --preset cuda)");
}

GpuDevice require_gpu(const std::string& asker, int32_t ordinal) {
  const GpuFacts facts = probe_gpus();
  if (!facts.obstacle.empty()) {
    throw_error(ErrorCode::kUnsupported, asker,
                ": needs a GPU, and none can be used: ", facts.obstacle);
  }
  const auto num_devices = static_cast<int32_t>(facts.devices.size());
  MF_CHECK(ordinal < num_devices, asker, ": device ", ordinal, " is outside [0, ", num_devices - 1,
           "]");
  const GpuDevice& device = facts.devices[ordinal];
  if (!device.is_supported) {
    throw_error(ErrorCode::kUnsupported, asker, ": device ", ordinal, ", ", device.name,
                ", has compute capability ", device.compute_major, ".", device.compute_minor,
                "; this build holds code for 9.0a");
  }
  return device;
}

void check_dealing(int32_t num_ranks, int32_t num_devices) {
  MF_CHECK(num_devices <= num_ranks, "--devices: ", num_devices, " for --ranks ", num_ranks,
           ", a device hosts at least one rank");
  MF_CHECK(ceil_div(num_ranks, num_devices) <= kMaxLocalRanks, "--devices: ", num_devices,
           " for --ranks ", num_ranks, ", a device hosts at most ", kMaxLocalRanks);
}

}  // namespace megaflux::cli
