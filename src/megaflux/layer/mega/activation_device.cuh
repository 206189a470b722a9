// Activations of a layer on the GPU: as layer_shape.h defines them, in fp32, with the hardware's
// exponential and reciprocal (2 ulp each; what follows is rounded to bf16).
#pragma once

#include <cuda_runtime.h>

#include "megaflux/moe/layer_shape.h"

namespace megaflux::mega {

// Below -87 and above 88 the exponential is 0 or infinite, and the quotient is right.
__device__ __forceinline__ float sigmoid(float x) {
  float power = 0, reciprocal = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-1.44269504f * x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(1.0f + power));
  return reciprocal;
}

template <Activation::Kind kKind>
__device__ __forceinline__ float activate(const Activation& activation, float gate, float up) {
  if constexpr (kKind == Activation::Kind::kSwiGlu) return gate * sigmoid(gate) * up;
  const float limit = activation.limit;
  const float g = fminf(gate, limit);
  const float u = fminf(fmaxf(up, -limit), limit);
  return (u + 1.0f) * (g * sigmoid(activation.alpha * g));
}

}  // namespace megaflux::mega
