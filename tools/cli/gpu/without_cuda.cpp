#include "cli/gpu/gpu_backend.h"

namespace megaflux::cli {

bool has_cuda() {
  return false;
}

GpuFacts probe_gpus() {
  check_has_cuda("--backend cuda");
  return {};
}

}  // namespace megaflux::cli
