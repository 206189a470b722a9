// What the ranks of a CPU layer see of each other: its fields of the symmetric heap.
//
// Who writes what, always between entry and exit of a launch:
//   inputs, routes    the rank itself, before its entry; peers read
//   results, dp       peers push, each (token, k) from exactly one rank; the rank reads after
//   y_count gradient_slots    the rank itself; the owner of the expert pulls after gradient_ready
//   the others        the two roles of the rank itself
#pragma once

#include <cstdint>

#include "megaflux/comm/row_map.h"
#include "megaflux/comm/symmetric_heap.h"
#include "megaflux/layer/cpu/layer_config.h"
#include "megaflux/layer/cpu/weights.h"

namespace megaflux {

// Tokens whose results one counter of y_count counts.
inline constexpr int32_t kTokenGroup = 64;

// Pointers into a rank's own memory that its peers pull from in this launch.
struct PublishedInputs {
  const void* x = nullptr;              // [T, H]
  const void* dy = nullptr;             // [T, H], backward only
  const float* topk_weights = nullptr;  // [T, K]
  OwnedWeights weights;
};

struct LayerFields {
  RouteFields routes;
  Field<PublishedInputs> inputs;   // [1]
  Field<std::byte> results;        // [T_max K, H] of the layer's dtype: O, or dX rows in backward
  Field<float> dp;                 // [T_max K]
  CounterField y_count;            // [ceil(T_max / kTokenGroup)] results that have arrived
  CounterField tiles_pulled;       // [1] tiles whose rows are in the pool
  CounterField tiles_done;         // [1] tiles that nothing reads any more
  CounterField parts_done;         // [1] 1 + parts whose gradients are complete
  Field<uint32_t> w1_ready;        // [s] epoch in which W1 of the slot arrived
  Field<uint32_t> w2_ready;        // [s]
  Field<uint32_t> gradient_ready;  // [s] epoch in which the slot's gradient was completed
  Field<float> gradient_slots;     // [s, gradient elements of an expert]
};

// Adds all fields but the routes, which a head may have added before (add_route_fields of
// comm/row_map.h); `config` must be resolved.
LayerFields add_layer_fields(Layout& layout, const CpuLayerConfig& config,
                             const RouteFields& routes);

// fp32 elements of one expert's gradient: W1, W2 and, with biases, b1 and b2.
inline int64_t gradient_elements(const LayerShape& shape) {
  return shape.expert_gradient_bytes() / 4;
}

}  // namespace megaflux
