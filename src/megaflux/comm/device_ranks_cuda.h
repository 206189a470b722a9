// DeviceRanks: what the ranks of one device own there, whatever fabric ties them to the ranks of
// other devices: their heaps, the tables that kernels read, and the statuses that kernels write.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "megaflux/comm/device_context.h"
#include "megaflux/comm/rank_context.h"

namespace megaflux {

// The layout of a group of devices with the words of the protocol in it.
struct DeviceLayout {
  // `payload_words` is rounded up to whole vectors of four.
  DeviceLayout(Layout caller_layout, int32_t num_ranks, int32_t payload_words);

  // Of one rank, whole pages.
  size_t heap_bytes() const;

  int32_t num_ranks;
  Layout layout;
  ProtocolFields protocol;
  LaunchFields launch;
};

class DeviceRanks {
 public:
  // The heaps of `ranks` on `device`, zeroed: `heaps`, or an allocation of its own. reset() makes
  // them ready for launches. `layout` and `statuses`, one a rank and in pinned memory, outlive it.
  // Throws kInternal with CUDA's words if memory runs out.
  DeviceRanks(int32_t device, std::vector<int32_t> ranks, const DeviceLayout& layout,
              DeviceStatus* statuses, const WaitConfig& waits, std::shared_ptr<std::byte> heaps);
  DeviceRanks(DeviceRanks&&) = default;

  int32_t device() const { return device_; }
  std::span<const int32_t> ranks() const { return ranks_; }
  // Of the heap of ranks()[local_idx].
  std::byte* base(size_t local_idx) const;
  const DeviceContext& context() const { return context_; }

  // The heaps of all P ranks as this device reaches them; once, before any launch.
  void connect(std::span<std::byte* const> bases);
  void set_fuzz_seed(uint64_t seed) { context_.fuzz_seed = seed; }

  // Epoch of the rank here that has launched most. No launch may be running, as for reset.
  uint32_t furthest_epoch() const;
  // Every signal as if the launch `epoch` had ended everywhere, and no failure.
  void reset(uint32_t epoch);

 private:
  struct FreeDevice {
    void operator()(std::byte* memory) const { cudaFree(memory); }
  };
  void make_context(const WaitConfig& waits);
  void reset_heap(std::byte* heap, uint32_t epoch) const;

  int32_t device_ = 0;
  std::vector<int32_t> ranks_;
  const DeviceLayout* layout_ = nullptr;
  size_t heap_bytes_ = 0;
  std::shared_ptr<std::byte> heaps_;               // [ranks, heap_bytes]
  std::unique_ptr<std::byte, FreeDevice> tables_;  // local ranks, base pointers
  DeviceContext context_;
};

}  // namespace megaflux
