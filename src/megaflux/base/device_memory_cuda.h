// DeviceMemory: bytes in the memory of one device, freed with their owner.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "megaflux/base/check_cuda.h"

namespace megaflux {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Throws kInternal with CUDA's words if there is not enough. The content is not set.
  DeviceMemory(int32_t device, size_t bytes) : bytes_(bytes) {
    const CurrentDevice current(device);
    void* data = nullptr;
    MF_CUDA(cudaMalloc(&data, bytes));
    data_ = static_cast<std::byte*>(data);
  }
  // A copy of `bytes`, whole before anything that is launched next, on any stream.
  static DeviceMemory copy_of(int32_t device, std::span<const std::byte> bytes) {
    DeviceMemory memory(device, bytes.size());
    const CurrentDevice current(device);
    MF_CUDA(cudaMemcpy(memory.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
    // From pageable memory the copy may still be on its way, and other streams do not wait for it.
    MF_CUDA(cudaDeviceSynchronize());
    return memory;
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory() { cudaFree(data_); }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace megaflux
