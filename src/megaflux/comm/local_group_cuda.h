// LocalGroup: the `local` fabric. P ranks of one process on any number of its devices, several
// ranks a device if asked for ("virtual ranks"); one kernel launch serves all ranks of a device.
// Any number of groups may live in a process and end in any order.
//
//   Layout layout;
//   const Field<float> x = layout.add<float>("x", 1024);
//   LocalGroup group({.device_of = {0, 0, 1, 1}}, layout);
//   group.launch([&](const DeviceContext& context, cudaStream_t stream) {
//     launch_x(context, x, stream);
//   });
//   group.synchronize();
//
// All CTAs of a launch must be resident at once (launch_resident sees to it), beside whatever else
// runs on the device; kernels of others that wait for peers are issued in the same order on every
// device. A launch that misses a peer ends at its deadline.
#pragma once

#include <cstdint>
#include <vector>

#include "megaflux/comm/device_group_cuda.h"

namespace megaflux {

struct LocalConfig {
  std::vector<int32_t> device_of;  // [P] CUDA ordinal of each rank; P is 1 ... 128
  int32_t payload_words = 0;       // words an entry can carry; a head needs none here
  uint32_t start_epoch = 0;        // tests start near the wrap
  WaitConfig waits = {};           // of it, the deadline and its scale count here
};

class LocalGroup final : public DeviceGroup {
 public:
  // Allocates the heaps (the layout plus the protocol's words) and opens the devices to each other,
  // which stays so for the process. Throws kBadInput naming the field, the value and the limit;
  // kUnsupported naming two devices that cannot reach each other's memory.
  LocalGroup(const LocalConfig& config, Layout layout);

  // Base pointers of all ranks, device memory: for copies to and from heaps.
  HeapView heap() const { return {bases_.data(), num_ranks()}; }

  void recover() override;
  std::vector<std::byte*> map_ranges(std::span<const MemoryRange> local) override;

 private:
  std::vector<std::byte*> bases_;  // [P]
};

}  // namespace megaflux
