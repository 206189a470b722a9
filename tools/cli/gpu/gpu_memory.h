// What a layer on GPUs takes of each device, part by part, and whether so much is free: known
// before anything is drawn or allocated.
//
// Example: E 128, K 8, H 4096, I 1536, 8 ranks of 4096 tokens on one device, s 2: 4.8 GB of weights
// and a session of 0.6 GB of slots, 2.8 of row pools, 1.1 of activations, 0.3 of tokens and 2.1 of
// results; 0.3 GB of tensors are the caller's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "megaflux/layer/mega/mega_support.h"
#include "megaflux/plan/planner.h"

namespace megaflux::cli {

struct DeviceNeed {
  MegaMemory layer;     // of all sessions and ranks there; weights of all experts that they own
  int64_t head = 0;     // of all heaps: the head's tables
  int64_t tensors = 0;  // the caller's: y, ids and their weights, x where there are no peers

  int64_t total() const { return layer.total() + head + tensors; }
};
// By CUDA ordinal.
using DeviceNeeds = std::vector<DeviceNeed>;

// The weights of every expert at its owner; `owner_of` [E], `device_of` [P].
void add_weights(const LayerShape& shape, std::span<const int32_t> owner_of,
                 std::span<const int32_t> device_of, DeviceNeeds& needs);
// One session and the tensors of its ranks. `layer` is resolved, `device_sms` are the SMs of a
// device.
void add_session(const MegaConfig& layer, const PlanConfig& plan, int32_t device_sms,
                 std::span<const int32_t> device_of, DeviceNeeds& needs);

// Throws kUnsupported, "ASKER: not run: memory; ...", with the bytes of every part, if a device has
// less free. The devices are those that require_gpu() has let through.
void require_memory(const std::string& asker, const DeviceNeeds& needs);

}  // namespace megaflux::cli
