// What this build does on GPUs. A build without CUDA has these functions too, and they say that it
// is one: gpu/without_cuda.cpp stands in for the .cu files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace megaflux::cli {

struct GpuDevice {
  std::string name;
  std::string uuid;  // "GPU-" and 32 digits in five groups
  int32_t compute_major = 0;
  int32_t compute_minor = 0;
  int32_t num_sms = 0;
  uint64_t memory_bytes = 0;
  bool is_supported = false;   // this build holds code for it
  std::vector<uint8_t> peers;  // [devices] 1 = its kernels reach the memory of that device
};

struct GpuFacts {
  std::string obstacle;            // why no device can be used, in CUDA's words; empty = they can
  std::string driver_cuda;         // newest CUDA version that the driver runs; empty = no driver
  std::string runtime;             // CUDA version of this build
  std::vector<GpuDevice> devices;  // by CUDA ordinal
};

// True if this build holds CUDA code.
bool has_cuda();

// Throws kUnsupported naming `asker`, "bench head" or an option, and the way out, if this build has
// no CUDA.
void check_has_cuda(const std::string& asker);

// Of this machine, without starting anything on a device. Throws kUnsupported without CUDA.
GpuFacts probe_gpus();

// The device `ordinal`, which this build can use. Throws kBadInput naming `asker` if there is none
// such, kUnsupported if there is no driver, no device or no code for it.
GpuDevice require_gpu(const std::string& asker, int32_t ordinal);

// Bytes of device memory that are free now. Throws kUnsupported without CUDA.
int64_t free_memory(int32_t ordinal);

// Throws kBadInput naming --devices and --ranks if a device would host no rank, or more than it
// can.
void check_dealing(int32_t num_ranks, int32_t num_devices);

// [P] the device of each rank, dealt out evenly from ordinal 0 on: 3 ranks on 2 devices are {0, 0,
// 1}. Both numbers as check_dealing() lets them through.
std::vector<int32_t> deal_ranks(int32_t num_ranks, int32_t num_devices);
// The most ranks that one device hosts.
int32_t most_hosted(std::span<const int32_t> device_of);

}  // namespace megaflux::cli
