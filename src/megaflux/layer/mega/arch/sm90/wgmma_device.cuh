// Matrix products of sm_90a: a warpgroup multiplies 64 rows of A by 256 rows of B, both bf16 in
// shared memory, K-major with the 128-byte swizzle, into fp32 accumulators of its own.
//
// Thread t of the warpgroup holds, of the 64 x 256 result, in acc[4 j + 2 h + i]
//   row 16 (t / 32) + (t % 32) / 4 + 8 h,  column 8 j + 2 (t % 4) + i.
//
// Between begin_products and the wait that ends a product, nothing may touch its accumulators; all
// of this is inlined, since a call in between would serialize the products.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace megaflux::sm90 {

inline constexpr int32_t kWarpgroupThreads = 128;
inline constexpr int32_t kAccumulators = 128;  // a thread

// Describes a matrix whose rows are 64 bf16 (128 bytes) one behind the other, beginning at a
// multiple of 1024 bytes. A step of 16 along K adds kDepthStep.
__device__ __forceinline__ uint64_t matrix_descriptor(const void* tile) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kEightRows = uint64_t{1024 / 16} << 32;  // from 8 rows to the next 8
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  return kSwizzle128 | kEightRows | (uint64_t{1} << 16) | (address & 0x3ffff) >> 4;
}
inline constexpr uint64_t kDepthStep = 32 / 16;

// Accumulators may be read and written by products from here on.
__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Ends when at most kPending commits of this warpgroup are unfinished.
template <int kPending>
__device__ __forceinline__ void await_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

#define MF_ACC_8(a, i)                                                                        \
  "+f"(a[i]), "+f"(a[i + 1]), "+f"(a[i + 2]), "+f"(a[i + 3]), "+f"(a[i + 4]), "+f"(a[i + 5]), \
      "+f"(a[i + 6]), "+f"(a[i + 7])
#define MF_ACC_32(a, i) MF_ACC_8(a, i), MF_ACC_8(a, i + 8), MF_ACC_8(a, i + 16), MF_ACC_8(a, i + 24)
#define MF_ACC_128(a) MF_ACC_32(a, 0), MF_ACC_32(a, 32), MF_ACC_32(a, 64), MF_ACC_32(a, 96)

// acc = A B^T + (is_sum ? acc : 0) over 16 of K.
__device__ __forceinline__ void multiply_64x256x16(float (&acc)[kAccumulators], uint64_t a,
                                                   uint64_t b, bool is_sum) {
  asm volatile(
      "{\n.reg .pred is_sum;\nsetp.ne.b32 is_sum, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "
      "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, "
      "%125, %126, %127}, %128, %129, is_sum, 1, 1, 0, 0;\n}\n"
      : MF_ACC_128(acc)
      : "l"(a), "l"(b), "r"(static_cast<int32_t>(is_sum)));
}

// Ends when all products have; the accumulators may be read behind it, and not before.
__device__ __forceinline__ void await_accumulators(float (&acc)[kAccumulators]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" : MF_ACC_128(acc)::"memory");
}

#undef MF_ACC_128
#undef MF_ACC_32
#undef MF_ACC_8

}  // namespace megaflux::sm90
