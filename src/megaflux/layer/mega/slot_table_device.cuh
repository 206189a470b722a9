// What a launch notes in the table of replica slots (MegaFields::slot_experts).
#pragma once

#include "megaflux/comm/signal_device.cuh"
#include "megaflux/layer/planned_fields.h"

namespace megaflux::mega {

// All threads of the CTA that has entered, with a plan. The launch ends with these weights in the
// slots of all ranks, or the group does not work until it recovers. A replica without blocks is not
// brought, so its slot holds nothing unless it is resident.
__device__ inline void note_slots(const DeviceRank& self, const PlannedFields& planned,
                                  Field<int32_t> slot_experts) {
  const std::byte* const plan = self.own(planned.plan);
  const auto* const wanted = reinterpret_cast<const int32_t*>(plan + planned.slot_expert);
  const auto* const resident = reinterpret_cast<const uint8_t*>(plan + planned.slot_resident);
  int32_t* const slots = self.own(slot_experts);
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const auto num_threads = static_cast<int32_t>(blockDim.x);
  const auto num_slots = static_cast<int32_t>(slot_experts.count);
  for (int32_t i = thread; i < num_slots; i += num_threads) {
    slots[i] = resident[i] != 0 ? wanted[i] : -1;
  }
  __syncthreads();
  // Instances in one run, whatever they belong to: an expert may have one on each of 128 ranks.
  const auto* const instances = reinterpret_cast<const int32_t*>(plan + planned.view.instances);
  const int32_t num_instances = reinterpret_cast<const PlanHeader*>(plan)->num_instances;
  for (int32_t i = thread; i < num_instances; i += num_threads) {
    const int32_t rank = instances[4 * i], slot = instances[4 * i + 1];
    if (slot < 0 || instances[4 * i + 3] == 0) continue;
    const int32_t place = rank * planned.replica_slots + slot;
    slots[place] = wanted[place];
  }
}

}  // namespace megaflux::mega
