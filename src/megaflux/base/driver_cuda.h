// Driver functions without the driver's library: programs start where there is none, and take what
// they call through the runtime.
//
//   MF_DRIVER(cuMemMap, address, bytes, 0, handle, 0);
//   MF_DRIVER_QUIETLY(cuMemUnmap, address, bytes);      // in a destructor
#pragma once

#include <cuda.h>

#include "megaflux/base/check_cuda.h"

namespace megaflux {

// Null if the driver has none of that name.
template <typename Function>
cudaError_t find_driver_function(const char* name, Function*& function) noexcept {
  constexpr unsigned kDriverVersion = 12000;
  void* found_at = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion(name, &found_at, kDriverVersion, cudaEnableDefault, &found);
  const bool is_there = status == cudaSuccess && found == cudaDriverEntryPointSuccess;
  function = is_there ? reinterpret_cast<Function*>(found_at) : nullptr;
  return status;
}

// Throws kUnsupported naming the function if the driver does not have it.
template <typename Function>
Function* driver_function(const char* name) {
  Function* function = nullptr;
  MF_CUDA(find_driver_function(name, function));
  if (function == nullptr) {
    throw_error(ErrorCode::kUnsupported, "the CUDA driver has no function ", name);
  }
  return function;
}

// For destructors. After an error that sticks to the process nothing can be found or freed.
template <typename Function, typename... Args>
void call_driver_quietly(const char* name, const Args&... args) noexcept {
  Function* function = nullptr;
  if (find_driver_function(name, function) == cudaSuccess && function != nullptr) function(args...);
}

// Throws kInternal with the driver's words unless `result` is success.
inline void check_driver(CUresult result, const char* name) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  driver_function<decltype(cuGetErrorString)>("cuGetErrorString")(result, &text);
  throw_error(ErrorCode::kInternal, name, ": ", text == nullptr ? "unknown error" : text);
}

}  // namespace megaflux

// MF_DRIVER(cuMemCreate, arguments...): a driver call that must succeed.
#define MF_DRIVER(name, ...) \
  ::megaflux::check_driver(::megaflux::driver_function<decltype(name)>(#name)(__VA_ARGS__), #name)
// MF_DRIVER_QUIETLY(cuMemRelease, arguments...): one that may fail and must not throw.
#define MF_DRIVER_QUIETLY(name, ...) \
  ::megaflux::call_driver_quietly<decltype(name)>(#name, __VA_ARGS__)
