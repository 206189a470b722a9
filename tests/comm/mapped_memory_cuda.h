// Device memory that did not come from cudaMalloc.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "megaflux/base/check_cuda.h"
#include "megaflux/base/driver_cuda.h"

namespace megaflux::test {

// Of the virtual memory calls, mapped piece by piece at neighbouring addresses, as expandable
// segments are: open to its own device alone, and made without a descriptor in mind.
class MappedMemory {
 public:
  explicit MappedMemory(int32_t device, size_t num_pieces = 1) : handles_(num_pieces) {
    const CurrentDevice current(device);
    MF_CUDA(cudaFree(nullptr));  // the driver's calls want the device's context
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    MF_DRIVER(cuMemAddressReserve, &at_, bytes(), 0, 0, 0);
    for (size_t i = 0; i < num_pieces; ++i) {
      MF_DRIVER(cuMemCreate, &handles_[i], kPieceBytes, &properties, 0);
      MF_DRIVER(cuMemMap, at_ + i * kPieceBytes, kPieceBytes, 0, handles_[i], 0);
    }
    MF_DRIVER(cuMemSetAccess, at_, bytes(), &access, 1);
  }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  ~MappedMemory() {
    MF_DRIVER_QUIETLY(cuMemUnmap, at_, bytes());
    for (const CUmemGenericAllocationHandle handle : handles_) {
      MF_DRIVER_QUIETLY(cuMemRelease, handle);
    }
    MF_DRIVER_QUIETLY(cuMemAddressFree, at_, bytes());
  }
  void* memory() const { return reinterpret_cast<void*>(at_); }
  size_t bytes() const { return handles_.size() * kPieceBytes; }

 private:
  static constexpr size_t kPieceBytes = size_t{2} << 20;
  std::vector<CUmemGenericAllocationHandle> handles_;
  CUdeviceptr at_ = 0;
};

// Of a pool of its own, open to its own device alone.
class PooledMemory {
 public:
  PooledMemory(int32_t device, size_t bytes) {
    const CurrentDevice current(device);
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    MF_CUDA(cudaMemPoolCreate(&pool_, &properties));
    MF_CUDA(cudaMallocFromPoolAsync(&memory_, bytes, pool_, nullptr));
    MF_CUDA(cudaDeviceSynchronize());
  }
  PooledMemory(const PooledMemory&) = delete;
  PooledMemory& operator=(const PooledMemory&) = delete;
  ~PooledMemory() {
    cudaFree(memory_);
    cudaMemPoolDestroy(pool_);
  }
  void* memory() const { return memory_; }

 private:
  cudaMemPool_t pool_ = nullptr;
  void* memory_ = nullptr;
};

}  // namespace megaflux::test
