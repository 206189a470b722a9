// Calls into the CUDA runtime: errors become Error with the call and CUDA's words, and the current
// device is put back.
#pragma once

#include <cuda_runtime_api.h>

#include <new>

#include "megaflux/base/check.h"

namespace megaflux {

// Throws kInternal naming `call` unless `status` is success.
inline void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // so that nobody meets it again
  throw_error(ErrorCode::kInternal, call, ": ", cudaGetErrorName(status), ", ",
              cudaGetErrorString(status));
}

// Makes `device` current for its own lifetime.
class CurrentDevice {
 public:
  explicit CurrentDevice(int32_t device) {
    check_cuda(cudaGetDevice(&before_), "cudaGetDevice");
    check_cuda(cudaSetDevice(device), "cudaSetDevice");
  }
  // For destructors, which must not throw: after an error that sticks to the process CUDA refuses
  // every call, and nothing is left to wait for or to free.
  CurrentDevice(int32_t device, std::nothrow_t) noexcept {
    if (cudaGetDevice(&before_) == cudaSuccess) cudaSetDevice(device);
  }
  ~CurrentDevice() { cudaSetDevice(before_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
};

}  // namespace megaflux

// A CUDA call that must succeed: MF_CUDA(cudaMalloc(&memory, bytes));
#define MF_CUDA(call) ::megaflux::check_cuda((call), #call)
