// A CUDA event with an owner, for times on a device.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "megaflux/base/check_cuda.h"

namespace megaflux::cli {

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

// Of the current device.
inline Event make_event() {
  cudaEvent_t event = nullptr;
  MF_CUDA(cudaEventCreate(&event));
  return Event(event);
}

}  // namespace megaflux::cli
