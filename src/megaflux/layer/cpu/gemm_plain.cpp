// GEMM as plain loops: builds without oneDNN, and runs under ThreadSanitizer, use it.
#include "megaflux/layer/cpu/gemm_plain.h"

#include "megaflux/base/vector_clones.h"

namespace megaflux {

// Each element of C is one chain over k ascending, so a row's bits cannot depend on its place.
MF_VECTOR_CLONES void plain_gemm(const GemmShape& shape, const float* a, const float* b,
                                 float* __restrict c) {
  for (int64_t i = 0; i < shape.m; ++i) {
    float* row = c + i * shape.n;
    if (!shape.is_accumulating) {
      for (int64_t j = 0; j < shape.n; ++j) row[j] = 0.0f;
    }
    if (shape.is_b_transposed) {
      for (int64_t j = 0; j < shape.n; ++j) {
        float sum = row[j];
        for (int64_t l = 0; l < shape.k; ++l) {
          sum += a[shape.is_a_transposed ? l * shape.m + i : i * shape.k + l] * b[j * shape.k + l];
        }
        row[j] = sum;
      }
      continue;
    }
    for (int64_t l = 0; l < shape.k; ++l) {
      const float scale = a[shape.is_a_transposed ? l * shape.m + i : i * shape.k + l];
      for (int64_t j = 0; j < shape.n; ++j) row[j] += scale * b[l * shape.n + j];
    }
  }
}

}  // namespace megaflux
