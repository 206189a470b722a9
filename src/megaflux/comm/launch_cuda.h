// launch_ranks: one kernel for all ranks of a device, with all CTAs on it at once, as waits between
// them need.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "megaflux/base/check_cuda.h"
#include "megaflux/comm/device_context.h"

namespace megaflux {

struct LaunchShape {
  int32_t ctas_per_rank = 1;
  int32_t num_threads = 0;  // a CTA, a multiple of 32
  size_t shared_bytes = 0;  // dynamic, a CTA
};

// Launches kernel(context, args...) on the current device, which is the context's, as a cooperative
// grid of ctas_per_rank CTAs (x) for each of its ranks (y). Throws kInternal with CUDA's words if
// they do not fit on the device together. May stand inside a stream capture.
template <typename... Params, typename... Args>
void launch_ranks(void (*kernel)(DeviceContext, Params...), const LaunchShape& shape,
                  cudaStream_t stream, const DeviceContext& context, const Args&... args) {
  MF_CHECK(shape.num_threads > 0 && shape.num_threads % 32 == 0 && shape.ctas_per_rank > 0,
           "a launch of ", shape.ctas_per_rank, " CTAs a rank and ", shape.num_threads,
           " threads; needed are whole warps");
  constexpr size_t kUnaskedBytes = 48 * 1024;  // more shared memory has to be asked for
  if (shape.shared_bytes > kUnaskedBytes) {
    MF_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shape.shared_bytes)));
  }
  cudaLaunchAttribute cooperative = {};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  // A row a rank, so that no CTA has to divide.
  config.gridDim =
      dim3(static_cast<uint32_t>(shape.ctas_per_rank), static_cast<uint32_t>(context.num_local));
  config.blockDim = dim3(static_cast<uint32_t>(shape.num_threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = &cooperative;
  config.numAttrs = 1;
  MF_CUDA(cudaLaunchKernelEx(&config, kernel, context, args...));
}

}  // namespace megaflux
