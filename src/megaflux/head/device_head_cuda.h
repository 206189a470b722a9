// DeviceHead: the head of the ranks of one device, host side. It checks what a launch is given and
// makes the argument of its kernel; results lie in the group's heap (device_head_fields.h).
//
//   Layout layout;
//   const DeviceHeadFields fields = add_device_head_fields(layout, config, limits);
//   LocalGroup group({.device_of = {0, 1}}, layout);
//   DeviceHead head(config, fields, group.ranks_on(0));                 // likewise for device 1
//   const DevicePlanner planner(config.plan, 0, max_step_rows(config));
//   group.launch([&](const DeviceContext& context, cudaStream_t stream) {
//     launch_head(context, head, head.params(routings, {.layer = 3}), planner, stream);
//   });
//
// A launch reads no host memory, allocates nothing and may stand in a stream capture; a replay
// takes the ids, counts of valid tokens and resident experts that device memory holds by then.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "megaflux/comm/device_context.h"
#include "megaflux/head/device_head_params.h"

namespace megaflux {

class DevicePlanner;  // plan/device_planner_cuda.h

// Of one launch; equal on all ranks.
struct DeviceHeadStep {
  int32_t layer = 0;
  uint64_t weight_version = 0;
  const int32_t* resident = nullptr;  // [P s] in this device's memory, -1 = none; or null
  PartOrder order = PartOrder::kOwnedFirst;
};

class DeviceHead {
 public:
  // Ranks `ranks` of the current device, in the order of their CTAs. Throws kBadInput if the fields
  // were made for another configuration, or if the device has too few SMs for two CTAs a rank.
  DeviceHead(const HeadConfig& config, const DeviceHeadFields& fields,
             std::span<const int32_t> ranks);

  // The argument of a launch; `routings` are those of the ranks here, with pointers to this
  // device's memory, of which num_tokens is fixed and may be cut by num_valid_tokens. Throws
  // kBadInput as the host's head does for T, K and pointers. Ids outside [-1, E) are dropped and
  // counted by the kernel.
  DeviceHeadParams params(std::span<const RoutingView> routings, const DeviceHeadStep& step) const;
  // CTAs of each rank in a launch: all SMs of the device, dealt out evenly.
  int32_t num_ctas() const { return num_ctas_; }
  const HeadConfig& config() const { return config_; }
  // config_hash(config().plan), found once.
  uint64_t plan_hash() const { return plan_hash_; }
  const DeviceHeadFields& fields() const { return fields_; }

  // Rows dropped on ranks[local_idx] by all launches that have ended.
  int64_t dropped_rows(size_t local_idx) const { return statuses_.get()[local_idx].dropped_total; }
  // Throws kBadInput if a launch that has ended since the last call met more rows than the planner
  // was made for, or dropped rows, naming the rank and their number; one reason a call.
  void check();

 private:
  struct FreePinned {
    void operator()(HeadStatus* memory) const { cudaFreeHost(memory); }
  };
  HeadConfig config_;
  DeviceHeadFields fields_;
  std::vector<int32_t> ranks_;
  std::vector<int64_t> told_;  // dropped rows that check() has told of
  std::unique_ptr<HeadStatus, FreePinned> statuses_;
  uint64_t config_hash_;
  uint64_t plan_hash_;
  int32_t num_ctas_;
};

// One launch for all ranks of the current device, whose head and planner these are; the planner
// leaves a DevicePlanReport in the field `report`. Throws kBadInput if the planner was not made
// with the head's config.plan and max_step_rows, so that ranks whose entries agree plan alike, or
// if the report has no room; kInternal with CUDA's words if the CTAs do not fit on the device
// together.
void launch_head(const DeviceContext& context, const DeviceHead& head,
                 const DeviceHeadParams& params, const DevicePlanner& planner, cudaStream_t stream);

}  // namespace megaflux
