#include <map>
#include <utility>

#include "megaflux/comm/local_group_cuda.h"
#include "megaflux/comm/open_memory_cuda.h"
#include "megaflux/comm/shared_memory_cuda.h"
#include "megaflux/comm/signal.h"

namespace megaflux {
namespace {

// The part of the configuration that all fabrics have, after a look at the rest.
DeviceGroupConfig group_config_of(const LocalConfig& config) {
  int count = 0;
  MF_CUDA(cudaGetDeviceCount(&count));
  for (size_t rank = 0; rank < config.device_of.size(); ++rank) {
    const int32_t device = config.device_of[rank];
    MF_CHECK(device >= 0 && device < count, "device_of[", rank, "]: ", device, " is outside [0, ",
             count, "), the CUDA devices of this process");
  }
  return {.num_ranks = static_cast<int32_t>(config.device_of.size()),
          .payload_words = config.payload_words,
          .start_epoch = config.start_epoch,
          .waits = config.waits};
}

bool has_attribute(cudaDeviceP2PAttr attribute, int32_t from, int32_t to) {
  int value = 0;
  MF_CUDA(cudaDeviceGetP2PAttribute(&value, attribute, from, to));
  return value != 0;
}

// Opens the memory of `to` to kernels on `from`.
void open_peer(int32_t from, int32_t to) {
  if (!has_attribute(cudaDevP2PAttrAccessSupported, from, to) ||
      !has_attribute(cudaDevP2PAttrNativeAtomicSupported, from, to)) {
    throw_error(ErrorCode::kUnsupported, "device ", from, " cannot reach the memory of device ", to,
                " with loads, stores and atomics");
  }
  const CurrentDevice current(from);
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return;
  }
  check_cuda(status, "cudaDeviceEnablePeerAccess");
}

// Memory of a rank lies on its device.
void check_place(const MemoryRange& range, int32_t rank, int32_t device) {
  if (range.data == nullptr) return;
  const Allocation allocation = allocation_of(range.data);
  MF_CHECK(allocation.device == device, "ranges: memory ", range.data, " of rank ", rank,
           " lies on device ", allocation.device, ", the rank on device ", device);
}

}  // namespace

LocalGroup::LocalGroup(const LocalConfig& config, Layout layout)
    : DeviceGroup(group_config_of(config), static_cast<int32_t>(config.device_of.size()),
                  std::move(layout)),
      bases_(config.device_of.size()) {
  std::map<int32_t, std::vector<int32_t>> ranks_on_device;
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    ranks_on_device[config.device_of[rank]].push_back(rank);
  }
  for (const auto& [device, ranks] : ranks_on_device) {
    const DeviceRanks& here = add_device(device, ranks);
    for (size_t i = 0; i < ranks.size(); ++i) bases_[ranks[i]] = here.base(i);
    for (const auto& [other, others] : ranks_on_device) {
      if (other != device) open_peer(device, other);
    }
  }
  for (DeviceRanks& here : devices()) here.connect(bases_);
}

std::vector<std::byte*> LocalGroup::map_ranges(std::span<const MemoryRange> local) {
  MF_CHECK(local.size() == static_cast<size_t>(num_ranks()), "ranges: ", local.size(),
           " given, the group has ", num_ranks(), " ranks in this process");
  std::vector<std::byte*> places(local.size());
  size_t next = 0;
  for (size_t i = 0; i < num_devices(); ++i) {
    for (const int32_t rank : ranks_on(i)) {
      const MemoryRange& range = local[next++];
      check_place(range, rank, device(i));
      for (size_t k = 0; k < num_devices(); ++k) open_memory(range.data, range.bytes, device(k));
      places[rank] = static_cast<std::byte*>(range.data);
    }
  }
  return places;
}

void LocalGroup::recover() {
  restart(stop() + kRecoveryStep);
}

}  // namespace megaflux
