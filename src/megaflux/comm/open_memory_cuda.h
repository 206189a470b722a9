// Memory of the caller's in one process, opened to kernels on another device. What cudaMalloc has
// made is open with the devices themselves (cudaDeviceEnablePeerAccess); other memory is not, and a
// kernel that reads it dies of an illegal address.
#pragma once

#include <cstddef>
#include <cstdint>

namespace megaflux {

// Lets kernels on `reader` reach `bytes` from `memory` on. They may span allocations, as a tensor
// in expandable segments does. Virtual memory gets access mapping by mapping, memory of a pool by
// its pool, all of it; both stay so. Throws kBadInput if some of it is no device memory,
// kUnsupported with CUDA's words, naming address, devices and kind of memory, if access cannot be
// given.
void open_memory(const void* memory, size_t bytes, int32_t reader);

}  // namespace megaflux
