// A group of device ranks with a head each, random ids in any type, and what the host's functions
// make of the same ids.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/counter_banks_cuda.h"
#include "gpu/captured_launch.cuh"
#include "gpu/gpu_test.cuh"
#include "head/step_fixture.h"
#include "megaflux/comm/local_group_cuda.h"
#include "megaflux/head/device_head_cuda.h"
#include "megaflux/plan/device_planner_cuda.h"
#include "megaflux/plan/planner.h"

namespace megaflux::test {

// Ids of one rank before they have a type: anything fits.
struct WideIds {
  int32_t num_tokens = 0;
  int32_t topk = 1;
  std::vector<int64_t> ids;          // [T, K]
  std::optional<int32_t> num_valid;  // of num_valid_tokens
  IdType type = IdType::kInt32;

  // As the device is to understand them: ids out of range and of invalid tokens are -1.
  Routing as_routing(int32_t num_experts) const {
    Routing routing{.num_tokens = num_tokens, .topk = topk, .topk_ids = {}, .topk_weights = {}};
    const int64_t valid = std::clamp(num_valid.value_or(num_tokens), 0, num_tokens) * int64_t{topk};
    for (int64_t i = 0; i < static_cast<int64_t>(ids.size()); ++i) {
      const bool is_row = i < valid && ids[i] >= 0 && ids[i] < num_experts;
      routing.topk_ids.push_back(is_row ? static_cast<int32_t>(ids[i]) : -1);
    }
    routing.topk_weights.resize(ids.size());
    return routing;
  }
  int64_t num_dropped(int32_t num_experts) const {
    const int64_t valid = std::clamp(num_valid.value_or(num_tokens), 0, num_tokens) * int64_t{topk};
    return std::count_if(ids.begin(), ids.begin() + valid,
                         [&](int64_t id) { return id < -1 || id >= num_experts; });
  }
};

// One rank's ids in device memory, of a fixed capacity, so that replays see new ones.
class DeviceIds {
 public:
  DeviceIds(int32_t max_tokens, int32_t topk, int device)
      : words_(static_cast<size_t>(max_tokens) * topk + 1, device), valid_(1, device) {}

  // Replaces the ids; num_tokens and type of a captured launch stay what they were.
  void set(const WideIds& ids) {
    std::vector<int64_t> packed(words_.count(), 0x7777777777777777);
    for (size_t i = 0; i < ids.ids.size(); ++i) {
      if (ids.type == IdType::kInt64) packed[i] = ids.ids[i];
      if (ids.type == IdType::kInt32) put(packed, i, static_cast<int32_t>(ids.ids[i]));
      if (ids.type == IdType::kInt16) put(packed, i, static_cast<int16_t>(ids.ids[i]));
    }
    words_.upload(packed);
    valid_.upload(std::vector<int32_t>{ids.num_valid.value_or(ids.num_tokens)});
    view_ = {.num_tokens = ids.num_tokens,
             .topk = ids.topk,
             .id_type = ids.type,
             .topk_ids = words_.data(),
             .num_valid_tokens = ids.num_valid ? valid_.data() : nullptr};
  }
  const RoutingView& view() const { return view_; }

 private:
  template <typename Id>
  static void put(std::vector<int64_t>& packed, size_t index, Id id) {
    std::memcpy(reinterpret_cast<std::byte*>(packed.data()) + index * sizeof(Id), &id, sizeof(Id));
  }
  gpu::DeviceArray<int64_t> words_;
  gpu::DeviceArray<int32_t> valid_;
  RoutingView view_;
};

// What the host makes of one step.
struct HostStep {
  std::vector<Routing> routings;
  LoadTable loads;
  Plan plan;
  PlanReport report;

  HostStep(const PlanConfig& config, const std::vector<WideIds>& ids,
           std::span<const int32_t> resident = {}) {
    const int32_t num_experts = config.dims.num_experts;
    std::vector<int32_t> rows;
    for (const WideIds& rank : ids) {
      routings.push_back(rank.as_routing(num_experts));
      rows.resize(rows.size() + num_experts);
      count_rows(routings.back().view(), std::span(rows).last(num_experts));
    }
    loads.assign(config.dims.num_ranks, num_experts, rows);
    make_planner(config)->plan(loads, resident, plan, report);
  }
};

struct RigOptions {
  int32_t max_ctas = 132;
  uint32_t start_epoch = 0xfffffffdu;     // most tests cross the wrap
  std::chrono::milliseconds deadline{0};  // 0 = by size
};

// What one rank does instead of a head.
enum class RankFault {
  kStaysAway,      // it launches nothing
  kOtherLaunch,    // another operation
  kOtherConfig,    // it enters as a head with another configuration
  kTellsNoCounts,  // it enters as a head, and is never heard of again
};

class DeviceRig {
 public:
  DeviceRig(const HeadConfig& config, std::vector<int32_t> device_of,
            const RigOptions& options = {})
      : config_(config) {
    Layout layout;
    fields_ = add_device_head_fields(
        layout, config, {.max_ctas = options.max_ctas, .report_bytes = sizeof(DevicePlanReport)});
    banks_.emplace(layout);
    LocalConfig local{.device_of = device_of, .start_epoch = options.start_epoch};
    local.waits.deadline = options.deadline;
    if (options.deadline.count() == 0) {
      local.waits.deadline = std::chrono::milliseconds(gpu::by_size(2'000, 60'000, 5'000));
    }
    group_ = std::make_unique<LocalGroup>(local, layout);
    for (size_t i = 0; i < group_->num_devices(); ++i) {
      const CurrentDevice current(group_->device(i));
      heads_.push_back(std::make_unique<DeviceHead>(config, fields_, group_->ranks_on(i)));
      planners_.push_back(
          std::make_unique<DevicePlanner>(config.plan, group_->device(i), max_step_rows(config)));
      const PlanDims& dims = config.plan.dims;
      residents_.emplace_back(static_cast<size_t>(dims.num_ranks) * dims.replica_slots,
                              group_->device(i));
    }
    for (const int32_t device : device_of)
      ids_.emplace_back(config.max_tokens, config.topk, device);
  }

  LocalGroup& group() { return *group_; }
  int32_t num_ranks() const { return group_->num_ranks(); }
  const DeviceHeadFields& fields() const { return fields_; }
  // Of a layer that the heads know nothing of.
  const CounterBanks& banks() const { return *banks_; }
  DeviceHead& head(size_t device_idx) { return *heads_[device_idx]; }
  void set_ids(const std::vector<WideIds>& ids) {
    for (size_t rank = 0; rank < ids.size(); ++rank) ids_[rank].set(ids[rank]);
  }
  // Experts that the slots hold, [P s]; empty = the next launches are told nothing of them. A
  // captured launch that was told sees them, too.
  void set_residents(const std::vector<int32_t>& resident) {
    has_residents_ = !resident.empty();
    for (size_t i = 0; i < group_->num_devices() && has_residents_; ++i) {
      residents_[i].upload(resident);
    }
  }
  // Results of every rank hold rubbish until a launch writes them.
  void poison() {
    for (int32_t rank = 0; rank < group_->num_ranks(); ++rank) {
      poison(rank, fields_.routes.offsets);
      poison(rank, fields_.routes.pairs);
      poison(rank, fields_.loads);
      poison(rank, fields_.source_begin);
      poison(rank, fields_.route_offsets);
      poison(rank, fields_.plan);
      poison(rank, fields_.work);
      poison(rank, fields_.parts);
    }
    synchronize();
  }

  // One launch on every device.
  void launch(PartOrder order = PartOrder::kOwnedFirst);
  // The same with another planner; of one device.
  void launch_with(const DevicePlanner& planner);
  // The same with a planner that ends with this outcome.
  void launch_refusing(HeadOutcome outcome);
  // The same, but for one rank, of device 0.
  void launch_with_fault(RankFault fault, int32_t faulty_rank);
  // The device's planner on every rank but the last, which stays away or tells no counts; of one
  // device.
  void launch_without_last(RankFault fault);

  // Waits for all streams of all devices.
  void synchronize() const {
    for (size_t i = 0; i < group_->num_devices(); ++i) {
      const CurrentDevice current(group_->device(i));
      MF_CUDA(cudaDeviceSynchronize());
    }
  }

  template <typename T>
  std::vector<T> download(int32_t rank, Field<T> field) const {
    std::vector<T> values(field.count);
    MF_CUDA(cudaMemcpy(values.data(), group_->heap().at(rank, field), field.count * sizeof(T),
                       cudaMemcpyDefault));
    return values;
  }

 private:
  void launch_on(size_t device_idx, const DeviceContext& context, const DevicePlanner& planner,
                 PartOrder order, cudaStream_t stream);
  DeviceHeadParams params_on(size_t device_idx, PartOrder order) const;
  std::vector<RoutingView> routings_on(size_t device_idx) const {
    std::vector<RoutingView> routings;
    for (const int32_t rank : group_->ranks_on(device_idx)) routings.push_back(ids_[rank].view());
    return routings;
  }
  template <typename T>
  void poison(int32_t rank, Field<T> field) {
    MF_CUDA(cudaMemset(group_->heap().at(rank, field), 0xcd, field.count * sizeof(T)));
  }
  HeadConfig config_;
  DeviceHeadFields fields_;
  std::optional<CounterBanks> banks_;
  std::unique_ptr<LocalGroup> group_;
  std::vector<std::unique_ptr<DeviceHead>> heads_;        // [devices]
  std::vector<std::unique_ptr<DevicePlanner>> planners_;  // [devices]
  std::vector<gpu::DeviceArray<int32_t>> residents_;      // [devices], of [P s]
  bool has_residents_ = false;
  std::vector<DeviceIds> ids_;  // [P]
};

// One launch of the rig, all of whose ranks are on device 0.
inline gpu::CapturedLaunch captured_launch(DeviceRig& rig) {
  return {rig.group().stream(0), [&] { rig.launch(); }};
}

}  // namespace megaflux::test
