#include <algorithm>
#include <memory>
#include <utility>

#include "megaflux/comm/device_group_cuda.h"
#include "megaflux/comm/device_status.h"
#include "megaflux/comm/signal.h"

namespace megaflux {
namespace {

DeviceStatus* allocate_statuses(int32_t count) {
  void* memory = nullptr;
  MF_CUDA(cudaHostAlloc(&memory, count * sizeof(DeviceStatus),
                        cudaHostAllocPortable | cudaHostAllocMapped));
  std::uninitialized_default_construct_n(static_cast<DeviceStatus*>(memory), count);
  return static_cast<DeviceStatus*>(memory);
}

}  // namespace

DeviceGroup::DeviceGroup(const DeviceGroupConfig& config, int32_t num_local, Layout layout)
    : config_(checked(config)),
      layout_(std::move(layout), config.num_ranks, config.payload_words),
      num_local_(num_local),
      statuses_(allocate_statuses(num_local)) {}

DeviceGroup::~DeviceGroup() {
  // Launches on the way still use the heaps; each of them ends at its deadline at the latest.
  for (const DeviceRanks& here : devices_) {
    const CurrentDevice current(here.device(), std::nothrow);
    cudaDeviceSynchronize();
  }
}

DeviceRanks& DeviceGroup::add_device(int32_t device, std::vector<int32_t> ranks,
                                     std::shared_ptr<std::byte> heaps) {
  const CurrentDevice current(device);
  cudaStream_t stream = nullptr;
  MF_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  streams_.emplace_back(stream);
  DeviceStatus* const statuses = statuses_.get() + num_added_;
  num_added_ += static_cast<int32_t>(ranks.size());
  MF_INVARIANT(num_added_ <= num_local_, num_added_, " ranks on ", num_local_, " places");
  devices_.emplace_back(device, std::move(ranks), layout_, statuses, config_.waits,
                        std::move(heaps));
  devices_.back().reset(config_.start_epoch);
  return devices_.back();
}

void DeviceGroup::synchronize() {
  for (size_t i = 0; i < num_devices(); ++i) {
    const CurrentDevice current(device(i));
    MF_CUDA(cudaStreamSynchronize(stream(i)));
  }
  check_sound();
}

bool DeviceGroup::is_poisoned() const {
  return megaflux::is_poisoned(statuses());
}

void DeviceGroup::refuse_poisoned() const {
  megaflux::refuse_poisoned(statuses());
}

void DeviceGroup::check_sound() {
  check_statuses(statuses(), told_);
}

std::string DeviceGroup::failure_text() const {
  return megaflux::failure_text(statuses());
}

uint32_t DeviceGroup::stop() {
  for (const DeviceRanks& here : devices_) {
    const CurrentDevice current(here.device());
    MF_CUDA(cudaDeviceSynchronize());
  }
  uint32_t furthest = devices_.front().furthest_epoch();
  for (const DeviceRanks& here : devices_) {
    const uint32_t epoch = here.furthest_epoch();
    if (is_reached(epoch, furthest)) furthest = epoch;
  }
  return furthest;
}

void DeviceGroup::restart(uint32_t epoch) {
  for (DeviceRanks& here : devices_) here.reset(epoch);
  reset_statuses(statuses());
  told_.reset();
}

void DeviceGroup::set_delay_fuzz(std::optional<uint64_t> seed) {
  for (DeviceRanks& here : devices_) here.set_fuzz_seed(seed ? mix64(*seed) | 1 : 0);
}

}  // namespace megaflux
