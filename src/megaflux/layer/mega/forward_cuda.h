// MegaForward: the forward of a layer on the ranks of one device, host side: their memory, and the
// argument of each launch.
//
//   Layout layout;
//   const MegaConfig config = resolve_config({.shape = shape, .num_ranks = 8, .max_tokens = 4096},
//                                            sms_of(0) / 4);
//   const MegaFields fields = add_mega_fields(layout, config);    // and a head's, for the routes
//   LocalGroup group({.device_of = {0, 0, 0, 0, 1, 1, 1, 1}}, layout);
//   MegaForward forward(config, fields, {.num_local = 4});    // on device 0, which is current
//   forward.set_weights(0, weights, sources);                 // of ranks_on(0)
//   group.launch([&](const DeviceContext& context, cudaStream_t stream) {
//     const ForwardParams params = forward.params(context, {.ranks = ranks, .planned = planned});
//     forward.launch(context, params, stream);
//   });
//
// A launch reads no host memory, allocates nothing and may stand in a stream capture. y is bitwise
// the same for every legal plan, order of parts, number of SMs, lag and pool size.
#pragma once

#include <cuda_runtime_api.h>

#include <span>
#include <vector>

#include "megaflux/base/device_memory_cuda.h"
#include "megaflux/comm/device_context.h"
#include "megaflux/layer/mega/forward_params_cuda.h"

namespace megaflux {

// SMs of a device.
int32_t sms_of(int32_t device);

// The weights of the experts that a rank owns, in ascending id: device memory that stays where it
// is as long as they are set. Peers read them too.
struct MegaWeights {
  int32_t num_owned = 0;      // E_local
  const void* w1 = nullptr;   // [E_local, 2I, H] bf16, in the shape's gate order
  const void* w2 = nullptr;   // [E_local, H, I] bf16
  const float* b1 = nullptr;  // [E_local, 2I]; null unless the shape has biases
  const float* b2 = nullptr;  // [E_local, H]
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
  int32_t layer = 0;  // whose weights have been set
  SlotFill slots = SlotFill::kPulled;
  ForwardStages stages = ForwardStages::kWhole;
  Fault fault = Fault::kNone;  // one of a forward; slots that are to be stale are kInPlace
  TraceBuffer trace = {};      // kernel_trace_device.cuh
};

// What a MegaForward serves: ranks of the current device, layers that share their slots and pools.
struct MegaScope {
  int32_t num_local = 1;
  int32_t num_layers = 1;
};

class MegaForward {
 public:
  // A resolved config, fields of the group's layout. Throws kBadInput naming what is out of bounds.
  MegaForward(const MegaConfig& config, const MegaFields& fields, const MegaScope& scope);

  // Weights of one layer on the device's ranks; `sources` [E] are the experts at their owners, as
  // this device reaches them, needed where slots are to be filled. Called again if they move; not
  // while a launch is under way. Throws kBadInput naming what is missing or misplaced.
  void set_weights(int32_t layer, std::span<const MegaWeights> weights,
                   std::span<const ExpertSource> sources = {});

  // The argument of a launch. Throws kBadInput naming the field, its value and its limit, so who
  // launches on several devices learns of a bad one before the first.
  ForwardParams params(const DeviceContext& context, const ForwardInputs& inputs) const;
  // One launch for the ranks of the current device, with what params() has made.
  void launch(const DeviceContext& context, const ForwardParams& params, cudaStream_t stream) const;

  const MegaConfig& config() const { return config_; }
  // Of one of the device's ranks.
  const SlotPool& slots(int32_t local_idx) const { return params_.ranks[local_idx].slots; }
  // [E] in the device's memory, what slots are filled from; null if none were given. Under
  // kWrongOwner entry e is where expert e + 1 lies, and the last one where expert 0 does.
  const ExpertSource* sources(int32_t layer, Fault fault = Fault::kNone) const;

 private:
  // What launches of a layer take in place of params_'.
  struct Layer {
    std::vector<MegaWeights> weights;  // [num_local]; none until they are set
    DeviceMemory maps;                 // MegaMaps [num_local]
    DeviceMemory sources;              // ExpertSource [E + 1] or none; the last is the first again
  };

  void check_layer(int32_t layer) const;
  void check(const DeviceContext& context, const ForwardInputs& inputs) const;

  MegaConfig config_;
  int32_t num_local_;
  ForwardParams params_;
  DeviceMemory space_;
  std::vector<Layer> layers_;
};

}  // namespace megaflux
