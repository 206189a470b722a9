// What this machine offers to megaflux, read from the system; nothing is started or changed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace megaflux::cli {

// An instruction set extension that CPU GEMMs profit from.
struct IsaExtension {
  std::string name;
  bool is_present = false;
};

struct CpuFacts {
  std::string model;      // "unknown" if the system does not say
  int32_t num_cores = 0;  // logical cores that this process may use
  std::vector<IsaExtension> isa;
  uint64_t memory_bytes = 0;  // of the machine
  // To this process without swapping, its control groups' limits included; 0 = unknown.
  uint64_t available_memory_bytes = 0;
};

struct CudaFacts {
  std::string driver;             // version; empty = no NVIDIA driver
  std::vector<std::string> gpus;  // model names
  std::string nvcc;               // path; empty = not on PATH
  std::string nccl;           // version "2.28.3" of the NCCL that a group would use; empty = none
  std::string nccl_path;      // where it was found
  std::string nccl_obstacle;  // why there is none; empty if there is one
};

CpuFacts probe_cpu();
CudaFacts probe_cuda();

}  // namespace megaflux::cli
