// The one GEMM of the CPU layer: C = A B (+ C) on the calling thread, oneDNN or plain loops behind
// it.
//
// The layer's equality across plans rests on this: the bits of a row of C depend on that row of A
// and on B alone, never on where the row stands among the 128 of a tile. Libraries treat the last
// rows of an odd count apart (oneDNN 2.6 with AVX2: the last two of 128, if B is transposed), so
// tiles are computed with as many padding rows as row_independent_rows() finds to be needed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "megaflux/moe/layer_shape.h"

namespace megaflux {

enum class GemmBackend : uint8_t {
  kAuto,        // choose_gemm_backend decides
  kPlainLoops,  // no oneDNN
  kOneDnnF32,   // f32 GEMM; bf16 operands are widened first
  kOneDnnBf16,  // bf16 operands as they are, needs AVX512-bf16 or AMX
};

// The best backend this build and this CPU offer for `dtype`.
GemmBackend choose_gemm_backend(DType dtype);
// "oneDNN 2.6.3, f32 GEMM (bf16 operands widened)" and the like, for printing.
std::string_view gemm_backend_name(GemmBackend backend);
// False if this build or CPU cannot run `backend`.
bool is_available(GemmBackend backend);

// Element type of A and B under a backend; C is always fp32.
constexpr DType operand_dtype(GemmBackend backend) {
  return backend == GemmBackend::kOneDnnBf16 ? DType::kBf16 : DType::kFp32;
}

struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool is_a_transposed = false;  // A is stored [k, m] instead of [m, k]
  bool is_b_transposed = false;  // B is stored [n, k] instead of [k, n]
  bool is_accumulating = false;  // C += A B instead of C = A B
  bool is_b_packed = false;      // B comes from pack_b
};

// Dense row-major operands. One call at a time per object; no allocation after construction apart
// from what the library behind does.
class Gemm {
 public:
  Gemm(GemmBackend backend, const GemmShape& shape);
  ~Gemm();
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;

  // `a`, `b` of operand_dtype(backend), `c` [m, n] fp32, which overlaps neither.
  void run(const void* a, const void* b, float* c);

  // Bytes of B in the layout that is_b_packed expects.
  int64_t packed_bytes() const;
  // Rearranges a plain B into `packed`.
  void pack_b(const void* b, void* packed);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// The least m >= 128 of {128, 132, 144} with which a GEMM of each of `shapes` (their m is ignored)
// gives equal bits for equal rows at the first 128 places, found by trying; 0 if there is none.
int32_t row_independent_rows(GemmBackend backend, std::span<const GemmShape> shapes);

}  // namespace megaflux
