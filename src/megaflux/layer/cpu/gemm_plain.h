// C = A B (+ C) in plain loops, fp32.
#pragma once

#include "megaflux/layer/cpu/gemm.h"

namespace megaflux {

// As Gemm::run with f32 operands; shape.is_b_packed is ignored, B is always plain.
void plain_gemm(const GemmShape& shape, const float* a, const float* b, float* c);

}  // namespace megaflux
