// The backward of one rank: dA and dZ, dX, dW2 and dW1 tile by tile; dX and dp pushed to their
// sources, replica gradients reduced by the owners.
#pragma once

#include "megaflux/layer/cpu/forward.h"
#include "megaflux/layer/cpu/gradients.h"
#include "megaflux/layer/cpu/launch.h"

namespace megaflux {

struct BackwardLaunch {
  Launch launch;                           // with dy; work in order kReplicatedFirst
  ZStore z;                                // as the forward saved it; data null = recompute all
  const WorkList* forward_work = nullptr;  // the list Z was saved by; null = recompute all
  void* dx = nullptr;                      // [T, H], overwritten
  float* dp = nullptr;                     // [T, K], overwritten
  GradientOutput gradients;                // of this rank's experts
};

// Called by both roles of every rank. Errors as wait_for and enter.
void run_backward(RankContext& ctx, RankWorkspace& ws, const BackwardLaunch& task);

}  // namespace megaflux
