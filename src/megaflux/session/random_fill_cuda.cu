#include "megaflux/session/random_fill_cuda.h"

#include "megaflux/base/check_cuda.h"
#include "megaflux/base/rng.h"

namespace megaflux {
namespace {

__global__ void random_values_kernel(Bf16* values, int64_t count, float scale, uint64_t seed) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    Rng rng(seed + static_cast<uint64_t>(i));
    values[i] = Bf16(rng.symmetric(scale));
  }
}

}  // namespace

void fill_random(Bf16* values, int64_t count, float scale, uint64_t seed) {
  random_values_kernel<<<1024, 256>>>(values, count, scale, seed << 40);
  MF_CUDA(cudaGetLastError());
}

}  // namespace megaflux
