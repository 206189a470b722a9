#include "cli/doctor/backends.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/text_format.h"
#include "megaflux/layer/cpu/gemm.h"

namespace megaflux::cli {
namespace {

Feature gemm_feature(const std::string& name, GemmBackend backend, const std::string& obstacle) {
  const bool is_there = is_available(backend);
  return {.name = name,
          .is_supported = is_there,
          .detail = is_there ? std::string(gemm_backend_name(backend)) : obstacle};
}

Backend describe_cpu() {
  return {
      .name = "cpu",
      .is_available = true,
      .features = {
          {"planners", true,
           "megaflux, paper, quota, fixed, 7 baselines: E <= 4096, P <= 1024, s <= 1024"},
          {"objectives", true, "forward, backward, cost with gate"},
          {"layer forward", true, "ranks are threads of this process"},
          {"layer backward", true, "saved Z or recomputed Z, replica gradients reduced in order"},
          {"bf16", true, std::string(gemm_backend_name(choose_gemm_backend(DType::kBf16)))},
          {"fp32", true, std::string(gemm_backend_name(choose_gemm_backend(DType::kFp32)))},
          gemm_feature("GEMM bf16", GemmBackend::kOneDnnBf16,
                       "needs oneDNN and a CPU with AVX512-bf16 or AMX"),
          gemm_feature("GEMM f32", GemmBackend::kOneDnnF32, "this build is without oneDNN"),
          gemm_feature("GEMM loops", GemmBackend::kPlainLoops, ""),
          {"fp8", false, "not part of this release"},
      }};
}

std::string device_text(const CudaFacts& cuda) {
  if (cuda.gpus.empty()) return "no GPU found";
  if (cuda.driver.empty()) return fmt::format("{} GPU found, no driver loaded", cuda.gpus.size());
  return fmt::format("{} GPU found, driver {}", cuda.gpus.size(), cuda.driver);
}

std::string peers_text(const GpuDevice& device, size_t ordinal) {
  std::vector<size_t> reached;
  for (size_t peer = 0; peer < device.peers.size(); ++peer) {
    if (peer != ordinal && device.peers[peer] != 0) reached.push_back(peer);
  }
  if (device.peers.size() == 1) return "no peers";
  return reached.empty() ? "reaches no peer" : fmt::format("reaches {}", fmt::join(reached, ", "));
}

Feature device_feature(const GpuDevice& device, size_t ordinal) {
  return {fmt::format("device {}", ordinal), device.is_supported,
          fmt::format(
              "{}, compute capability {}.{}{}, {} SMs, {}, {}", device.name, device.compute_major,
              device.compute_minor, device.is_supported ? "" : " (this build holds code for 9.0a)",
              device.num_sms, bytes_text(device.memory_bytes), peers_text(device, ordinal))};
}

// True if every device that runs our code reaches every other one's memory.
bool are_all_peers(const std::vector<GpuDevice>& devices) {
  for (const GpuDevice& device : devices) {
    if (!device.is_supported || std::count(device.peers.begin(), device.peers.end(), 0) > 0)
      return false;
  }
  return !devices.empty();
}

Feature nccl_feature(const CudaFacts& cuda) {
  return {"ranks by NCCL", !cuda.nccl.empty(),
          cuda.nccl.empty() ? cuda.nccl_obstacle
                            : fmt::format("NCCL {}, {}", cuda.nccl, cuda.nccl_path)};
}

Backend describe_absent_cuda(const CudaFacts& cuda) {
  const std::string absent = "this build has no CUDA";
  return {
      .name = "cuda",
      .is_available = false,
      .reason = absent + ": configure with MEGAFLUX_CUDA=ON (preset cuda)",
      .features = {
          {"device", !cuda.gpus.empty() && !cuda.driver.empty(), device_text(cuda)},
          {"compiler", !cuda.nvcc.empty(), cuda.nvcc.empty() ? "nvcc is not on PATH" : cuda.nvcc},
          nccl_feature(cuda),
          {"planners", false, absent},
          {"head", false, absent},
          {"layer forward", false, absent},
          {"layer backward", false, absent},
      }};
}

std::string obstacle_of(const GpuFacts& gpus) {
  if (!gpus.obstacle.empty()) return gpus.obstacle;
  const bool has_one = std::any_of(gpus.devices.begin(), gpus.devices.end(),
                                   [](const GpuDevice& device) { return device.is_supported; });
  return has_one ? "" : "no device has compute capability 9.0, which this build holds code for";
}

Backend describe_cuda(const CudaFacts& cuda, const GpuFacts& gpus) {
  if (!has_cuda()) return describe_absent_cuda(cuda);
  Backend backend = {.name = "cuda", .reason = obstacle_of(gpus)};
  backend.is_available = backend.reason.empty();
  backend.features = {
      {"driver", !gpus.driver_cuda.empty(),
       gpus.driver_cuda.empty()
           ? "no NVIDIA driver is loaded"
           : fmt::format("{}, runs CUDA up to {}", cuda.driver, gpus.driver_cuda)},
      {"runtime", true, fmt::format("CUDA {}, in the program", gpus.runtime)},
  };
  for (size_t i = 0; i < gpus.devices.size(); ++i) {
    backend.features.push_back(device_feature(gpus.devices[i], i));
  }
  const bool is_there = backend.is_available;
  const std::string& reason = backend.reason;
  const auto feature = [&](const std::string& name, const std::string& detail) {
    return Feature{name, is_there, is_there ? detail : reason};
  };
  backend.features.push_back(
      feature("planners", "megaflux, paper, quota, fixed: E <= 1024, P <= 128, s <= 8"));
  backend.features.push_back(feature("head", "router ids to plan and row maps, without the host"));
  backend.features.push_back(feature("ranks on a device", "local, several a device"));
  const bool is_wide = is_there && gpus.devices.size() > 1 && are_all_peers(gpus.devices);
  backend.features.push_back({"ranks on devices", is_wide,
                              is_wide
                                  ? "local, one process"
                                  : "needs two devices or more that reach each other's memory"});
  backend.features.push_back(nccl_feature(cuda));
  backend.features.push_back(
      feature("layer forward", "bf16, H and I multiples of 64, E <= 1024, P <= 128, s <= 8"));
  backend.features.push_back({"layer backward", false, "this release does it on the CPU alone"});
  return backend;
}

}  // namespace

std::string gemm_name() {
  return std::string(gemm_backend_name(choose_gemm_backend(DType::kBf16)));
}

std::vector<Backend> describe_backends(const CudaFacts& cuda, const GpuFacts& gpus) {
  return {describe_cpu(), describe_cuda(cuda, gpus)};
}

}  // namespace megaflux::cli
