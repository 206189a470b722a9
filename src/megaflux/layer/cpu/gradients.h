// Weight gradients: fp32 accumulators of the rank's parts, and the owner's reduction over replicas.
//
// A part's tiles add up in ascending order in one fp32 chain. The owner then forms acc = its own
// part (0 if it computed none) + each replica's gradient, ranks ascending, and stores acc or adds
// it to main_grad, one addition an element.
#pragma once

#include "megaflux/layer/cpu/launch.h"

namespace megaflux {

// Gradients of the experts a rank owns, ascending id.
struct GradientOutput {
  GradientMode mode = GradientMode::kNewFp32;
  void* w1 = nullptr;   // [E_local, 2I, H]
  void* w2 = nullptr;   // [E_local, H, I]
  float* b1 = nullptr;  // [E_local, 2I], null without biases
  float* b2 = nullptr;  // [E_local, H], null without biases
};

// One expert's fp32 gradient.
struct GradientView {
  float* w1 = nullptr;
  float* w2 = nullptr;
  float* b1 = nullptr;
  float* b2 = nullptr;
};

// Compute role, before the entry: memory for accumulators that cannot be the output itself.
void reserve_accumulators(RankWorkspace& ws, const GradientOutput& out);
// Compute role, after the entry: zeros for experts of which this rank computes nothing.
void clear_untouched(const RoleView& view, const GradientOutput& out);
// Where a part's tiles add up.
GradientView accumulator_of(const RoleView& view, const GradientOutput& out, const Part& part);
// Compute role: the part's gradient is complete; hands it to the owner or stores it.
void finish_part(const RoleView& view, const GradientOutput& out, const Part& part);
// Comm role: reduces the replicated experts this rank owns.
void reduce_gradients(const RoleView& view, const GradientOutput& out);

}  // namespace megaflux
