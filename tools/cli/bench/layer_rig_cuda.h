// LayerRig: a layer of random weights and tokens on the GPUs of this process, its outputs, and the
// time of its launches. What every program that measures or traces a forward runs.
//
//   const auto weights = std::make_shared<RandomWeights>(shape, owners, device_of);
//   LayerRig rig(config, device_of, weights, routing);
//   const double ms = rig.run(LaunchKind::kLayer, 10);
//
// Only launches that pull weights fill slots. Those that a rig makes before anything is timed do,
// so that replicas may be resident from then on.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "megaflux/base/device_memory_cuda.h"
#include "megaflux/moe/plan.h"
#include "megaflux/moe/routing.h"
#include "megaflux/session/device_session_cuda.h"
#include "megaflux/session/group_timer_cuda.h"

namespace megaflux::cli {

// Weights of all ranks. An expert has the same values wherever it stands.
class RandomWeights {
 public:
  // `owner_of` [E], `device_of` [P].
  RandomWeights(const LayerShape& shape, std::span<const int32_t> owner_of,
                std::span<const int32_t> device_of);

  std::vector<MegaWeights> of_ranks() const;  // [P]

 private:
  struct Owned {
    int32_t num_experts = 0;
    DeviceMemory w1, w2;
  };

  std::vector<Owned> owned_;  // [P]
};

enum class LaunchKind {
  kGemms,  // the two GEMMs alone, over rows that a whole launch has left in the pool
  kLayer,  // a head and a whole launch
};

class LayerRig {
 public:
  // `routing` [P], host memory. Throws what a session throws, and kInternal with CUDA's words where
  // memory is short.
  LayerRig(DeviceSessionConfig config, std::span<const int32_t> device_of,
           std::shared_ptr<RandomWeights> weights, std::span<const Routing> routing);

  DeviceSession& session() { return *session_; }
  const std::shared_ptr<RandomWeights>& weights() const { return weights_; }
  // What the head plans at every launch.
  const Plan& plan() const { return plan_; }
  // How the next launches come by the weights of replicas.
  void set_transfer(ReplicaTransfer transfer) { session_->set_transfer(transfer); }
  // Milliseconds a launch, back to back on one stream a device from a place where all devices have
  // met; the slowest device counts. `lead` launches that are not timed go right before them.
  double run(LaunchKind kind, int32_t launches, int32_t lead = 0);
  // y of all ranks after one launch over memory that is full of `poison`.
  std::vector<std::vector<std::byte>> outputs(uint8_t poison);

 private:
  void add_rank(int32_t rank, const Routing& routing);
  void launch(LaunchKind kind, int32_t launches);

  std::vector<int32_t> device_of_;
  std::shared_ptr<RandomWeights> weights_;
  std::unique_ptr<DeviceSession> session_;
  std::vector<DeviceMemory> memory_;     // that the tensors point to
  std::vector<DeviceMemory> y_;          // [P]
  std::vector<ForwardTensors> tensors_;  // [P]
  std::optional<GroupTimer> timer_;
  Plan plan_;
};

}  // namespace megaflux::cli
