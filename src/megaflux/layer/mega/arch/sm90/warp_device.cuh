// What warps of sm_90a have and CUDA C++ has no words for: registers that move between warpgroups,
// and 8 x 8 matrices from registers to shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace megaflux::sm90 {

// All warps of a warpgroup. give: down to kRegisters a thread; take: up to them, waiting until
// others have given enough.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Four 8 x 8 matrices of 16-bit elements: lane l gives the address of row l % 8 of matrix l / 8 and
// holds columns 2 (l % 4), + 1 of row l / 4 of each.
__device__ __forceinline__ void store_matrices(void* row, const uint32_t (&values)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(row))),
               "r"(values[0]), "r"(values[1]), "r"(values[2]), "r"(values[3])
               : "memory");
}

// Two floats, each rounded once, as a pair of bf16; `low` comes first in memory.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t pair = 0;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

}  // namespace megaflux::sm90
