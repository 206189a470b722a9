// What the GPU test programs share: their size, what they need of the machine, and device memory
// that starts poisoned.
//
// A program is one gpu_test_ROOM with the main of gpu_test_main.cu. --size=quick (the default) runs
// all suites whose name has no "Soak"; --size=sanitize the same, where a test takes shapes and
// launches small enough for compute-sanitizer; --size=soak the Soak suites alone, with as many
// launches as they want.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "megaflux/base/check_cuda.h"

namespace megaflux::gpu {

enum class Size { kQuick, kSanitize, kSoak };

// The --size of this program.
Size size();

// `quick`, `sanitize` or `soak`: the value for the size of this program.
template <typename T>
T by_size(T quick, T sanitize, T soak) {
  return size() == Size::kQuick ? quick : size() == Size::kSanitize ? sanitize : soak;
}

// GPUs of this machine that run our code, as CUDA ordinals 0 to num_gpus() - 1.
int num_gpus();

// `count` elements of T in the memory of a device; every byte is 0xcd until something else is
// written.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count, int device = 0) : count_(count), device_(device) {
    MF_CUDA(cudaSetDevice(device));
    void* memory = nullptr;
    MF_CUDA(cudaMalloc(&memory, bytes() == 0 ? 1 : bytes()));
    data_ = static_cast<T*>(memory);
    poison();
  }
  explicit DeviceArray(std::span<const T> values, int device = 0)
      : DeviceArray(values.size(), device) {
    upload(values);
  }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(other.count_), device_(other.device_) {}
  DeviceArray& operator=(DeviceArray&&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  size_t count() const { return count_; }
  size_t bytes() const { return count_ * sizeof(T); }

  // These wait for the whole device before and after.
  void poison() {
    MF_CUDA(cudaSetDevice(device_));
    MF_CUDA(cudaMemset(data_, 0xcd, bytes()));
    MF_CUDA(cudaDeviceSynchronize());
  }
  void upload(std::span<const T> values) {
    MF_INVARIANT(values.size() == count_, "upload of ", values.size(), " values to ", count_);
    copy(data_, values.data(), cudaMemcpyHostToDevice);
  }
  std::vector<T> download() const {
    std::vector<T> values(count_);
    copy(values.data(), data_, cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  void copy(void* to, const void* from, cudaMemcpyKind kind) const {
    MF_CUDA(cudaSetDevice(device_));
    MF_CUDA(cudaDeviceSynchronize());
    MF_CUDA(cudaMemcpy(to, from, bytes(), kind));
    MF_CUDA(cudaDeviceSynchronize());
  }

  T* data_ = nullptr;
  size_t count_ = 0;
  int device_ = 0;
};

}  // namespace megaflux::gpu

// Skips the test, aloud, on a machine with fewer GPUs.
#define MF_NEEDS_GPUS(count)                                                                    \
  if (megaflux::gpu::num_gpus() < (count)) {                                                    \
    GTEST_SKIP() << "needs " << (count) << " GPUs, and there is " << megaflux::gpu::num_gpus(); \
  }                                                                                             \
  static_assert(true)

// Skips a test that waits for deadlines where kernels are slowed down: they would have to be
// seconds long, and a sanitizer sees nothing in a wait. One test a kernel goes without this, for
// the way out of a launch that is given up.
#define MF_NEEDS_REAL_TIME()                                                   \
  if (megaflux::gpu::size() == megaflux::gpu::Size::kSanitize) {               \
    GTEST_SKIP() << "waits for deadlines, which a sanitizer makes seconds of"; \
  }                                                                            \
  static_assert(true)
