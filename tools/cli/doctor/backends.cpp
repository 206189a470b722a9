#include "cli/doctor/backends.h"

#include <fmt/format.h>

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

Backend describe_cuda(const CudaFacts& cuda) {
  const std::string absent = "this release executes on the CPU";
  return {
      .name = "cuda",
      .is_available = false,
      .reason = "megaflux " MF_VERSION " has no CUDA code yet",
      .features = {
          {"device", !cuda.gpus.empty() && !cuda.driver.empty(), device_text(cuda)},
          {"compiler", !cuda.nvcc.empty(), cuda.nvcc.empty() ? "nvcc is not on PATH" : cuda.nvcc},
          {"ranks across GPUs", !cuda.nccl.empty(),
           cuda.nccl.empty() ? "libnccl.so.2 cannot be loaded" : "NCCL " + cuda.nccl},
          {"planners", false, absent},
          {"layer forward", false, absent},
          {"layer backward", false, absent},
      }};
}

}  // namespace

std::string gemm_name() {
  return std::string(gemm_backend_name(choose_gemm_backend(DType::kBf16)));
}

std::vector<Backend> describe_backends(const CudaFacts& cuda) {
  return {describe_cpu(), describe_cuda(cuda)};
}

}  // namespace megaflux::cli
