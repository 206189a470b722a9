#include <algorithm>

#include "cli/gpu/gpu_backend.h"

namespace megaflux::cli {

std::vector<int32_t> deal_ranks(int32_t num_ranks, int32_t num_devices) {
  std::vector<int32_t> device_of;
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    device_of.push_back(rank * num_devices / num_ranks);
  }
  return device_of;
}

int32_t most_hosted(std::span<const int32_t> device_of) {
  std::vector<int32_t> hosted(std::ranges::max(device_of) + 1);
  for (const int32_t device : device_of) ++hosted[device];
  return std::ranges::max(hosted);
}

}  // namespace megaflux::cli
