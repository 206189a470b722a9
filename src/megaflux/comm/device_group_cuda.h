// DeviceGroup: what the fabrics of GPUs have in common, `local` and `nccl`, and all that their
// callers see: contexts to hand to kernels, launches, errors and recovery. A group stands for the
// ranks that this process hosts; any number of groups may live in it and end in any order.
//
// A launch that fails ends: no wait outlasts its deadline. The host learns of it from pinned
// memory, without a synchronisation of its own. When that memory has changed depends on the host,
// so launch() looks at failures alone: a process that refuses a launch which another makes leaves a
// poisoned group no worse, for that launch ends at once and recover() brings all to one epoch. A
// verdict that all ranks share leaves the group in step, and is told by synchronize() and
// check_sound() alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megaflux/base/check_cuda.h"
#include "megaflux/comm/device_ranks_cuda.h"

namespace megaflux {

// Device memory; between processes inside one allocation.
struct MemoryRange {
  void* data = nullptr;
  size_t bytes = 0;
};

class DeviceGroup {
 public:
  virtual ~DeviceGroup();
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  int32_t num_ranks() const { return layout_.num_ranks; }
  const Layout& layout() const { return layout_.layout; }
  const ProtocolFields& protocol() const { return layout_.protocol; }

  // Devices of this process, by ascending ordinal; launches go out in this order.
  size_t num_devices() const { return devices_.size(); }
  int32_t device(size_t device_idx) const { return devices_[device_idx].device(); }
  // Ranks there, ascending: the order of a launch's CTAs.
  std::span<const int32_t> ranks_on(size_t device_idx) const {
    return devices_[device_idx].ranks();
  }
  const DeviceContext& context(size_t device_idx) const { return devices_[device_idx].context(); }
  // A stream of the group's own there.
  cudaStream_t stream(size_t device_idx) const { return streams_[device_idx].get(); }
  // Heap of ranks_on(device_idx)[local_idx].
  std::byte* base(size_t device_idx, size_t local_idx) const {
    return devices_[device_idx].base(local_idx);
  }

  // Calls fn(const DeviceContext&, cudaStream_t) for every device of this process, that device
  // current; fn makes one launch of the protocol there. `streams`, one a device, take the place of
  // the group's own. May stand inside a stream capture. Throws kTimeout with the failure if the
  // group is poisoned, and kBadInput for another number of streams.
  template <typename Fn>
  void launch(Fn&& fn, std::span<const cudaStream_t> streams = {}) const {
    refuse_poisoned();
    MF_CHECK(streams.empty() || streams.size() == num_devices(), "streams: ", streams.size(),
             " given, the group has ", num_devices(), " devices in this process");
    for (size_t i = 0; i < num_devices(); ++i) {
      const CurrentDevice current(device(i));
      fn(context(i), streams.empty() ? stream(i) : streams[i]);
    }
  }
  // Waits for the group's own streams, then check_sound().
  void synchronize();

  bool is_poisoned() const;
  // Throws kTimeout with the failure if the group is poisoned: launch() would refuse. Otherwise
  // throws the AgreedError of the first launch since the last call that ended with one, once; the
  // group stays usable. Of launches that still run it may tell or not.
  void check_sound();
  // The failure that poisoned the group; empty if it is not poisoned.
  std::string failure_text() const;
  // Collective over all ranks: once nothing runs on their devices, signals go back to "nothing
  // launched", epochs 2^16 ahead of the furthest rank, so that no word of an old launch can end a
  // new wait. Also allowed on a sound group.
  virtual void recover() = 0;

  // Collective: where memory of every rank is reachable from the devices of this process, [P];
  // `local` are the ranges of its own ranks, by device, then by rank. One without memory is null.
  // The memory outlives the group. Throws kBadInput for another number of ranges or memory that is
  // not on its rank's device; kUnsupported, with address, device and kind, for some that cannot be
  // opened to the others.
  virtual std::vector<std::byte*> map_ranges(std::span<const MemoryRange> local) = 0;

  // Random delays around every signal of the launches made from now on; nullopt = off.
  void set_delay_fuzz(std::optional<uint64_t> seed);

 protected:
  DeviceGroup(const DeviceGroupConfig& config, int32_t num_local, Layout layout);

  // Heaps, tables and a stream for ranks of this process; they come in ascending order of device.
  // `heaps` as in DeviceRanks.
  DeviceRanks& add_device(int32_t device, std::vector<int32_t> ranks,
                          std::shared_ptr<std::byte> heaps = nullptr);
  const DeviceLayout& device_layout() const { return layout_; }
  std::span<DeviceRanks> devices() { return devices_; }
  // Waits until nothing runs on the devices of this process; the furthest epoch of its ranks.
  uint32_t stop();
  // Every rank of this process as if `epoch` had ended, and sound.
  void restart(uint32_t epoch);

 private:
  void refuse_poisoned() const;
  std::span<DeviceStatus> statuses() const {
    return {statuses_.get(), static_cast<size_t>(num_local_)};
  }

  struct DestroyStream {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  };
  struct FreePinned {
    void operator()(DeviceStatus* memory) const { cudaFreeHost(memory); }
  };

  DeviceGroupConfig config_;
  DeviceLayout layout_;
  int32_t num_local_ = 0;
  int32_t num_added_ = 0;
  std::unique_ptr<DeviceStatus, FreePinned> statuses_;  // [num_local]
  std::optional<uint32_t> told_;                        // epoch of the last verdict told
  std::vector<DeviceRanks> devices_;
  std::vector<std::unique_ptr<CUstream_st, DestroyStream>> streams_;  // [devices]
};

}  // namespace megaflux
