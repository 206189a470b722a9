// ForwardParams: the argument of the forward kernel, made by MegaForward.
#pragma once

#include <cstdint>

#include "megaflux/comm/device_context.h"
#include "megaflux/layer/fault.h"
#include "megaflux/layer/mega/kernel_trace_device.cuh"
#include "megaflux/layer/mega/mega_fields.h"
#include "megaflux/layer/mega/tensor_map_cuda.h"
#include "megaflux/layer/planned_fields.h"
#include "megaflux/layer/replica_pull_device.cuh"
#include "megaflux/moe/routing.h"

namespace megaflux {

// What of a launch is done.
enum class ForwardStages : uint8_t {
  kWhole,
  // The two GEMMs alone, over the rows that the last whole launch left in the pool and the weights
  // that it left in the slots; y is not written. For measuring, with a pool that holds all rows.
  kGemms,
};

// What the replica slots hold when a launch begins.
enum class SlotFill : uint8_t {
  kPulled,   // what the plan calls resident; the launch pulls the rest from the owners
  kInPlace,  // all that the plan wants: nothing is pulled
};

// One rank of the device, pointers to this device's memory.
struct MegaRank {
  std::byte* space = nullptr;      // WorkspaceFields
  const MegaMaps* maps = nullptr;  // [1]
  int32_t num_owned = 0;           // E_local: weight slot i is slot i - num_owned from there on
  const float* b1 = nullptr;       // [E_local, 2I] or null
  const float* b2 = nullptr;       // [E_local, H] or null
  SlotPool slots;
  const Bf16* x = nullptr;  // [T, H] what the rank itself reads of its tokens
  Bf16* y = nullptr;        // [T, H]
  RoutingView routing;
};

struct ForwardParams {
  MegaFields fields;
  WorkspaceFields space;
  PlannedFields planned;
  int32_t layer = 0;
  uint64_t config_hash = 0;
  Activation activation;
  ForwardStages stages = ForwardStages::kWhole;
  SlotFill slots = SlotFill::kPulled;
  Fault fault = Fault::kNone;
  bool is_gate_first = true;
  bool has_bias = false;  // a rank that owns nothing has biases in its slots alone
  int32_t num_experts = 0;
  int32_t hidden = 0;
  int32_t inter = 0;
  int32_t fc1_columns = 0;
  int32_t fc2_columns = 0;
  int32_t unit_tiles = 0;
  int32_t pool_tiles = 0;
  int32_t lag_waves = 1;
  WeightCut cuts[2];                      // of W1 and W2
  const ExpertSource* sources = nullptr;  // [E]
  TraceBuffer trace;
  MegaRank ranks[kMaxLocalRanks];  // [num_local]
};

}  // namespace megaflux
