// DistributeWeights: replica weights from their owners into slots, in a launch of its own ahead of
// the forward that uses them. The baseline for a forward that brings them itself, and the way to
// have them in place where several forwards follow one plan.
//
//   DistributeWeights distribute(config, pools);    // of the current device's ranks
//   group.launch([&](const DeviceContext& context, cudaStream_t stream) {
//     distribute.launch(context, {.planned = planned, .sources = sources}, stream);
//   });
//
// A launch reads no host memory, allocates nothing and may stand in a stream capture.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "megaflux/comm/device_context.h"
#include "megaflux/layer/planned_fields.h"
#include "megaflux/layer/replica_pull_device.cuh"
#include "megaflux/layer/weight_cut.h"

namespace megaflux {

// Fixed at creation.
struct DistributeConfig {
  WeightCut w1_cut, w2_cut;
  uint64_t config_hash = 0;  // equal on all ranks
  int32_t num_sms = 0;       // of a rank
};

struct DistributeStep {
  PlannedFields planned;
  const ExpertSource* sources = nullptr;  // [E] of the layer, in this device's memory
  int32_t layer = 0;
};

struct DistributeParams {
  PlannedFields planned;
  WeightCut cuts[2];
  const ExpertSource* sources = nullptr;  // [E]
  uint64_t config_hash = 0;
  int32_t layer = 0;
  SlotPool pools[kMaxLocalRanks];  // [num_local]
};

class DistributeWeights {
 public:
  // `pools` of the current device's ranks. Throws kBadInput for too many of them.
  DistributeWeights(const DistributeConfig& config, std::span<const SlotPool> pools);

  // One launch for the ranks of the current device: fills the slots that the plan wants and does
  // not call resident. Throws kBadInput for a group with another number of ranks here, or without
  // sources.
  void launch(const DeviceContext& context, const DistributeStep& step, cudaStream_t stream) const;

 private:
  int32_t num_sms_;
  int32_t num_local_;
  DistributeParams params_;
};

}  // namespace megaflux
