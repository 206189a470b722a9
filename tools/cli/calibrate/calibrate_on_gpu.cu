#include "cli/calibrate/calibrate_on_gpu.h"

#include <algorithm>
#include <memory>

#include "cli/bench/layer_rig_cuda.h"
#include "cli/gpu/gpu_backend.h"
#include "megaflux/comm/local_group_cuda.h"
#include "megaflux/session/calibration_cuda.h"

namespace megaflux::cli {

MachineModel calibrate_on_gpu(const CalibrationCase& layer) {
  const CurrentDevice current(layer.device_of[0]);
  DeviceSessionConfig config;
  config.shape = layer.shape;
  config.max_tokens = layer.tokens;
  config.plan = layer.plan;
  config.num_sms = layer.num_sms;
  config.ranks_per_device = most_hosted(layer.device_of);
  const RandomWeights weights(layer.shape, config.plan.owner_of, layer.device_of);
  const auto make_group = [&](const Layout& layout) {
    return std::make_unique<LocalGroup>(LocalConfig{.device_of = layer.device_of}, layout);
  };
  return calibrate(config, make_group, weights.of_ranks());
}

}  // namespace megaflux::cli
