// MegaForward: the forward of a layer on the ranks of one device, host side: their memory, and the
// argument of each launch.
//
//   Layout layout;
//   const MegaConfig config = resolve_config({.shape = shape, .num_ranks = 8, .max_tokens = 4096},
//                                            sms_of(0) / 4);
//   const MegaFields fields = add_mega_fields(layout, config);    // and a head's, for the routes
//   LocalGroup group({.device_of = {0, 0, 0, 0, 1, 1, 1, 1}}, layout);
//   MegaForward forward(config, fields, weights);    // of ranks_on(0), device 0 being current
//   group.launch([&](const DeviceContext& context, cudaStream_t stream) {
//     forward.launch(context, {.ranks = ranks, .planned = planned}, stream);
//   });
//
// A launch reads no host memory, allocates nothing and may stand in a stream capture. y is bitwise
// the same for every legal plan, order of parts, number of SMs, lag and pool size.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "megaflux/base/device_memory_cuda.h"
#include "megaflux/comm/device_context.h"
#include "megaflux/layer/mega/forward_params_cuda.h"

namespace megaflux {

// SMs of a device.
int32_t sms_of(int32_t device);

// The weight pool of a rank, device memory that stays where it is: owned experts in ascending id,
// then replica slots. A launch reads the former, also on behalf of peers, and writes the latter.
struct MegaWeights {
  int32_t num_weights = 0;  // E_local + s
  void* w1 = nullptr;       // [E_local + s, 2I, H] bf16, in the shape's gate order
  void* w2 = nullptr;       // [E_local + s, H, I] bf16
  float* b1 = nullptr;      // [E_local + s, 2I]; null unless the shape has biases
  float* b2 = nullptr;      // [E_local + s, H]
};

// Of one rank in one launch, device memory.
struct ForwardTensors {
  // [T, H] bf16; null if T = 0. Peers read the tokens in this rank's heap, at fields.tokens: x is
  // that place, or a copy made on this stream. Without peers, any place.
  const void* x = nullptr;
  void* y = nullptr;    // [T, H] bf16, overwritten
  RoutingView routing;  // T <= T_max and the shape's K
};

// What one launch takes.
struct ForwardInputs {
  std::span<const ForwardTensors> ranks;  // of the device, in the order of its group
  PlannedFields planned;
  int32_t layer = 0;
  SlotFill slots = SlotFill::kPulled;
  ForwardStages stages = ForwardStages::kWhole;
  TraceBuffer trace = {};  // kernel_trace_device.cuh
};

class MegaForward {
 public:
  // A resolved config, fields of the group's layout, weights of the current device's ranks;
  // `sources` [E] are the experts at their owners, as this device reaches them, needed where slots
  // are to be filled. Throws kBadInput naming what is missing or misplaced.
  MegaForward(const MegaConfig& config, const MegaFields& fields,
              std::span<const MegaWeights> weights, std::span<const ExpertSource> sources = {});

  // Throws kBadInput naming the argument, its value and its limit: what launch() does first, for
  // callers who launch on several devices or on none.
  void check(const DeviceContext& context, const ForwardInputs& inputs) const;
  // One launch for the ranks of the current device. Throws as check().
  void launch(const DeviceContext& context, const ForwardInputs& inputs, cudaStream_t stream) const;

  const MegaConfig& config() const { return config_; }
  // Of the device's own memory, all ranks together.
  size_t workspace_bytes() const { return space_.bytes(); }

 private:
  MegaConfig config_;
  int32_t num_local_;
  ForwardParams params_;
  DeviceMemory space_;
  DeviceMemory maps_;
  DeviceMemory sources_;
};

}  // namespace megaflux
