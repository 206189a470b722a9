// What one expert does to a list of rows, in plain loops with fp64 sums and no intermediate
// rounding.
//
// Inputs are taken at the value they are stored with (bf16 or fp32) and widened; nothing is rounded
// again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/moe/layer_shape.h"

namespace megaflux {

// Weights of one expert; non-owning.
struct ExpertView {
  const void* w1 = nullptr;   // [2I, H] of the layer's dtype
  const void* w2 = nullptr;   // [H, I] of the layer's dtype
  const float* b1 = nullptr;  // [2I], null without biases
  const float* b2 = nullptr;  // [H], null without biases
};

// Element `index` of an array of `dtype`.
double element_at(const void* data, DType dtype, int64_t index);
// out[i] = element first + i, for all of `out`.
void widen_elements(const void* data, DType dtype, int64_t first, std::span<double> out);

// Activation of one channel and its derivatives.
struct ActivationPoint {
  double value = 0;
  double d_gate = 0;
  double d_up = 0;
};
ActivationPoint activate(const Activation& activation, double gate, double up);

// Where gate and up of channel i stand among the 2I rows of W1.
int64_t gate_row(const LayerShape& shape, int64_t channel);
int64_t up_row(const LayerShape& shape, int64_t channel);

struct ForwardRows {
  std::vector<double> z;  // [n, 2I], W1's row order, bias included
  std::vector<double> a;  // [n, I]
  std::vector<double> o;  // [n, H], bias included
};
// `x` is [n, H].
ForwardRows forward_rows(const LayerShape& shape, const ExpertView& expert,
                         std::span<const double> x);

struct BackwardRows {
  std::vector<double> dz;  // [n, 2I], routing weight included
  std::vector<double> pa;  // [n, I], p A
  std::vector<double> dx;  // [n, H]
  std::vector<double> dp;  // [n]
};
// `d` is [n, H], the gradient of the token's output; `p` is [n].
BackwardRows backward_rows(const LayerShape& shape, const ExpertView& expert,
                           const ForwardRows& forward, std::span<const double> d,
                           std::span<const double> p);

}  // namespace megaflux
