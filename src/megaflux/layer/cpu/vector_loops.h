// The element-wise loops of the CPU layer. Each result depends on its own inputs alone and in one
// fixed order, never on its position, so equal rows give equal bits wherever they stand.
#pragma once

#include <cstdint>

#include "megaflux/base/bf16.h"
#include "megaflux/moe/layer_shape.h"

namespace megaflux {

// out[i] = fp32 of in[i].
void widen(const Bf16* in, float* out, int64_t count);
// out[i] = in[i], rounded once to bf16.
void narrow(const float* in, Bf16* out, int64_t count);
// values[i] = fp32 of values[i] rounded to bf16.
void round_in_place(float* values, int64_t count);

// sum[i] = sum[i] + in[i].
void add(const float* in, float* sum, int64_t count);
// sum[i] = fma(scale, in[i], sum[i]).
void add_scaled(float scale, const float* in, float* sum, int64_t count);
void add_scaled(float scale, const Bf16* in, float* sum, int64_t count);
// <a, b> in fp32: eight interleaved chains, added pairwise, then the tail.
float dot(const float* a, const float* b, int64_t count);

// a[i] = activation(gate[i], up[i]).
void activate(const Activation& activation, const float* gate, const float* up, float* a,
              int64_t count);

// One row of the activation's backward. Reads gate, up and da (the gradient of A before the routing
// weight p); writes d_gate and d_up (p included), pa = p A, and a = A, which dp = <da, A> needs.
struct ActivationGradient {
  const float* gate = nullptr;
  const float* up = nullptr;
  const float* da = nullptr;
  float p = 0;
  float* d_gate = nullptr;
  float* d_up = nullptr;
  float* pa = nullptr;
  float* a = nullptr;
};
void activate_backward(const Activation& activation, const ActivationGradient& row, int64_t count);

}  // namespace megaflux
