// Traces of made-up loads.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "megaflux/base/rng.h"
#include "megaflux/trace/trace.h"

namespace megaflux::simulate {

struct LoadExtent {
  int64_t num_steps = 1;
  int32_t num_layers = 1;
  int32_t num_experts = 8;
};

// Rows of (step, layer, expert); sources are unknown.
inline Trace trace_of(const LoadExtent& extent,
                      const std::function<int32_t(int64_t, int32_t, int32_t)>& rows) {
  TraceData data;
  data.meta.num_experts = extent.num_experts;
  data.meta.time_ordered = true;
  for (int32_t layer = 0; layer < extent.num_layers; ++layer) data.meta.layers.push_back(layer);
  data.num_steps = extent.num_steps;
  data.load_ranks = 1;
  for (int64_t step = 0; step < extent.num_steps; ++step) {
    for (int32_t layer = 0; layer < extent.num_layers; ++layer) {
      for (int32_t e = 0; e < extent.num_experts; ++e) data.loads.push_back(rows(step, layer, e));
    }
  }
  return Trace(std::move(data));
}

// Skewed loads: a tenth of the experts has most rows, and another tenth in every step.
inline Trace drawn_trace(const LoadExtent& extent, uint64_t seed) {
  Rng rng(seed);
  return trace_of(extent, [&rng, &extent](int64_t step, int32_t, int32_t e) {
    const bool is_hot = (e + step * 3) % extent.num_experts * 10 < extent.num_experts;
    return static_cast<int32_t>(rng.below(is_hot ? 4000 : 400));
  });
}

}  // namespace megaflux::simulate
