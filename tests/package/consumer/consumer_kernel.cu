// A stranger's kernel: sums over the threads of a CTA by the library's device code.
#include <cstdint>
#include <cstdio>

#include "megaflux/base/block_scan_device.cuh"
#include "megaflux/head/head_device.cuh"
#include "megaflux/plan/planner_device.cuh"

__global__ void scan_kernel(uint64_t* sums) {
  __shared__ uint64_t scratch[megaflux::kMaxCtaWarps];
  uint64_t value[1] = {threadIdx.x}, total[1];
  megaflux::scan_exclusive(value, total, static_cast<int32_t>(blockDim.x), scratch);
  sums[threadIdx.x] = value[0];
}

int main() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("no CUDA device: nothing was launched\n");
    return 0;
  }
  uint64_t* sums = nullptr;
  uint64_t last = 0;
  cudaMalloc(&sums, 64 * sizeof(uint64_t));
  scan_kernel<<<1, 64>>>(sums);
  cudaMemcpy(&last, sums + 63, sizeof(last), cudaMemcpyDeviceToHost);
  std::printf("%d\n", static_cast<int>(last));
  return last == 62 * 63 / 2 ? 0 : 1;
}
