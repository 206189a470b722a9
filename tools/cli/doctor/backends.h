// What each backend of this build supports on this machine, and why not.
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/machine_probe.h"
#include "cli/gpu/gpu_backend.h"

namespace megaflux::cli {

struct Feature {
  std::string name;
  bool is_supported = false;
  std::string detail;  // limits, or the reason why not
};

struct Backend {
  std::string name;
  bool is_available = false;
  std::string reason = {};  // why it is not available; empty if it is
  std::vector<Feature> features = {};
};

// The GEMM that the CPU layer uses here, with its library and version.
std::string gemm_name();

// `gpus` are read where the build has CUDA.
std::vector<Backend> describe_backends(const CudaFacts& cuda, const GpuFacts& gpus);

}  // namespace megaflux::cli
