#include "megaflux/layer/cpu/vector_loops.h"

#include <bit>

#include "megaflux/base/vector_clones.h"

namespace megaflux {
namespace {

#define MF_INLINE inline __attribute__((always_inline))

// exp(x) within 2 ulp, without branches, so that loops over it become vector code. Below -87 and
// above 88 it stays at the value there; NaN stays NaN.
MF_INLINE float exp_value(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  // Adding 1.5 * 2^23 leaves round(x / ln 2) in the low bits of the sum.
  const float shifted = x * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float poly = 1.9875691500e-4f;
  poly = poly * r + 1.3981999507e-3f;
  poly = poly * r + 8.3334519073e-3f;
  poly = poly * r + 4.1665795894e-2f;
  poly = poly * r + 1.6666665459e-1f;
  poly = poly * r + 5.0000001201e-1f;
  poly = poly * (r * r) + r + 1.0f;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) << 23;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(poly) + exponent);
}

MF_INLINE float sigmoid(float x) {
  return 1.0f / (1.0f + exp_value(-x));
}

struct Point {
  float value;
  float d_gate;
  float d_up;
};

MF_INLINE Point swiglu_point(float gate, float up) {
  const float s = sigmoid(gate);
  const float silu = gate * s;
  return {silu * up, up * (s + silu * (1.0f - s)), silu};
}

// On the boundary the clamp passes its gradient.
MF_INLINE Point clamped_point(float gate, float up, float limit, float alpha) {
  const float g = gate > limit ? limit : gate;
  const float u_low = up < -limit ? -limit : up;
  const float u = u_low > limit ? limit : u_low;
  const float s = sigmoid(alpha * g);
  const float gs = g * s;
  const float slope = (u + 1.0f) * (s + alpha * gs * (1.0f - s));
  return {(u + 1.0f) * gs, gate > limit ? 0.0f : slope, u == up ? gs : 0.0f};
}

MF_VECTOR_CLONES void activate_swiglu(const float* gate, const float* up, float* __restrict a,
                                      int64_t count) {
  for (int64_t i = 0; i < count; ++i) a[i] = swiglu_point(gate[i], up[i]).value;
}

MF_VECTOR_CLONES void activate_clamped(const float* gate, const float* up, float* __restrict a,
                                       int64_t count, float limit, float alpha) {
  for (int64_t i = 0; i < count; ++i) a[i] = clamped_point(gate[i], up[i], limit, alpha).value;
}

// Writes what the backward of one channel gives; `r` holds disjoint arrays.
MF_INLINE void store_gradient(const ActivationGradient& r, int64_t i, const Point& point) {
  const float scaled = r.p * r.da[i];
  r.d_gate[i] = scaled * point.d_gate;
  r.d_up[i] = scaled * point.d_up;
  r.pa[i] = r.p * point.value;
  r.a[i] = point.value;
}

MF_VECTOR_CLONES void backward_swiglu(const ActivationGradient& row, int64_t count) {
  const ActivationGradient r = row;
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) store_gradient(r, i, swiglu_point(r.gate[i], r.up[i]));
}

MF_VECTOR_CLONES void backward_clamped(const ActivationGradient& row, int64_t count, float limit,
                                       float alpha) {
  const ActivationGradient r = row;
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    store_gradient(r, i, clamped_point(r.gate[i], r.up[i], limit, alpha));
  }
}

}  // namespace

MF_VECTOR_CLONES void widen(const Bf16* in, float* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(in[i].bits) << 16);
  }
}

MF_VECTOR_CLONES void narrow(const float* in, Bf16* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = Bf16(in[i]);
}

MF_VECTOR_CLONES void round_in_place(float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] = round_to_bf16(values[i]);
}

MF_VECTOR_CLONES void add(const float* in, float* __restrict sum, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i] += in[i];
}

MF_VECTOR_CLONES void add_scaled(float scale, const float* in, float* __restrict sum,
                                 int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i] = __builtin_fmaf(scale, in[i], sum[i]);
}

MF_VECTOR_CLONES void add_scaled(float scale, const Bf16* in, float* __restrict sum,
                                 int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(in[i].bits) << 16);
    sum[i] = __builtin_fmaf(scale, value, sum[i]);
  }
}

MF_VECTOR_CLONES float dot(const float* a, const float* b, int64_t count) {
  constexpr int64_t kLanes = 8;
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
  }
  float sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
              ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void activate(const Activation& activation, const float* gate, const float* up, float* a,
              int64_t count) {
  if (activation.kind == Activation::Kind::kSwiGlu) {
    activate_swiglu(gate, up, a, count);
  } else {
    activate_clamped(gate, up, a, count, activation.limit, activation.alpha);
  }
}

void activate_backward(const Activation& activation, const ActivationGradient& row, int64_t count) {
  if (activation.kind == Activation::Kind::kSwiGlu) {
    backward_swiglu(row, count);
  } else {
    backward_clamped(row, count, activation.limit, activation.alpha);
  }
}

}  // namespace megaflux
