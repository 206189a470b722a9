#include <cuda_runtime_api.h>

#include <cstdio>

#include "cli/gpu/gpu_backend.h"
#include "megaflux/base/check_cuda.h"
#include "megaflux/base/device_memory_cuda.h"

namespace megaflux::cli {
namespace {

// CUDA codes 13.0 as 13000.
std::string version_text(int code) {
  return std::to_string(code / 1000) + "." + std::to_string(code % 1000 / 10);
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += digits;
  }
  return text;
}

GpuDevice probe_device(int ordinal, int num_devices) {
  cudaDeviceProp properties = {};
  MF_CUDA(cudaGetDeviceProperties(&properties, ordinal));
  GpuDevice device = {.name = properties.name,
                      .uuid = uuid_text(properties.uuid),
                      .compute_major = properties.major,
                      .compute_minor = properties.minor,
                      .num_sms = properties.multiProcessorCount,
                      .memory_bytes = properties.totalGlobalMem,
                      // sm_90a code runs there and nowhere else.
                      .is_supported = properties.major == 9 && properties.minor == 0,
                      .peers = {}};
  for (int peer = 0; peer < num_devices; ++peer) {
    int is_reached = peer == ordinal;
    if (peer != ordinal) MF_CUDA(cudaDeviceCanAccessPeer(&is_reached, ordinal, peer));
    device.peers.push_back(is_reached != 0);
  }
  return device;
}

}  // namespace

bool has_cuda() {
  return true;
}

GpuFacts probe_gpus() {
  GpuFacts facts;
  facts.runtime = version_text(CUDART_VERSION);
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0)
    facts.driver_cuda = version_text(driver);
  int num_devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&num_devices);
  if (status != cudaSuccess || num_devices == 0) {
    cudaGetLastError();
    facts.obstacle = facts.driver_cuda.empty()
                         ? "no NVIDIA driver is loaded"
                         : cudaGetErrorString(status != cudaSuccess ? status : cudaErrorNoDevice);
    return facts;
  }
  for (int ordinal = 0; ordinal < num_devices; ++ordinal) {
    facts.devices.push_back(probe_device(ordinal, num_devices));
  }
  return facts;
}

int64_t free_memory(int32_t ordinal) {
  const CurrentDevice current(ordinal);
  size_t free_bytes = 0, all_bytes = 0;
  MF_CUDA(cudaMemGetInfo(&free_bytes, &all_bytes));
  return static_cast<int64_t>(free_bytes);
}

}  // namespace megaflux::cli
