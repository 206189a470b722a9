// A layer on one GPU as a session runs it: a head that turns ids into routes and a work list, and a
// forward that takes them, in one group of one rank.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "megaflux/comm/local_group_cuda.h"
#include "megaflux/head/device_head_cuda.h"
#include "megaflux/layer/mega/forward_cuda.h"
#include "megaflux/plan/device_planner_cuda.h"

namespace megaflux {

class HeadedLayer {
 public:
  // `weights` on device 0.
  HeadedLayer(const MegaConfig& config, const MegaWeights& weights, const WaitConfig& waits = {}) {
    const LayerShape& shape = config.shape;
    HeadConfig head_config;
    head_config.plan.dims = {.num_experts = shape.num_experts,
                             .num_ranks = config.num_ranks,
                             .replica_slots = config.replica_slots};
    head_config.topk = shape.topk;
    head_config.max_tokens = config.max_tokens;
    const CurrentDevice current(0);
    Layout layout;
    head_fields_ = add_device_head_fields(
        layout, head_config, {.max_ctas = sms_of(0), .report_bytes = sizeof(DevicePlanReport)});
    fields_ = add_mega_fields(layout, config);
    group_ = std::make_unique<LocalGroup>(LocalConfig{.device_of = {0}, .waits = waits}, layout);
    head_ = std::make_unique<DeviceHead>(head_config, head_fields_, group_->ranks_on(0));
    const int64_t most = std::max<int64_t>(1, int64_t{config.max_tokens} * shape.topk);
    planner_ = std::make_unique<DevicePlanner>(head_config.plan, 0, most);
    forward_ = std::make_unique<MegaForward>(config, fields_, weights);
  }

  LocalGroup& group() { return *group_; }
  const MegaForward& forward() const { return *forward_; }
  const MegaFields& fields() const { return fields_; }
  const DeviceHeadFields& head_fields() const { return head_fields_; }
  template <typename T>
  T* at(Field<T> field) const {
    return group_->heap().at(0, field);
  }

  // `routing` on the device.
  void launch_head(const RoutingView& routing, std::optional<cudaStream_t> stream = {}) {
    launch(stream, [&](const DeviceContext& context, cudaStream_t on) {
      megaflux::launch_head(context, *head_, head_->params(std::span(&routing, 1), {}), *planner_,
                            on);
    });
  }
  // What a forward takes from the head.
  ForwardInputs inputs(const RoutingView& routing, const void* x, void* y) const {
    const int32_t num_experts = forward_->config().shape.num_experts;
    return {.x = x,
            .y = y,
            .routing = routing,
            .work = {at(head_fields_.work), at(head_fields_.parts)},
            .rows = {.source_begin = at(head_fields_.source_begin),
                     .route_offsets = at(head_fields_.route_offsets),
                     .num_ranks = 1,
                     .num_experts = num_experts},
            .routes = head_fields_.routes};
  }
  void launch_forward(const ForwardInputs& inputs, std::optional<cudaStream_t> stream = {}) {
    launch(stream, [&](const DeviceContext& context, cudaStream_t on) {
      forward_->launch(context, inputs, on);
    });
  }

 private:
  template <typename Fn>
  void launch(const std::optional<cudaStream_t>& stream, Fn&& fn) {
    if (stream) {
      group_->launch(fn, std::span(&*stream, 1));
    } else {
      group_->launch(fn);
    }
  }

  DeviceHeadFields head_fields_;
  MegaFields fields_;
  std::unique_ptr<LocalGroup> group_;
  std::unique_ptr<DeviceHead> head_;
  std::unique_ptr<DevicePlanner> planner_;
  std::unique_ptr<MegaForward> forward_;
};

}  // namespace megaflux
