// Random steps of a layer case on GPUs, the outputs of forwards, and how far they are from the
// reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/captured_launch.cuh"
#include "gpu/gpu_test.cuh"
#include "megaflux/comm/local_group_cuda.h"
#include "megaflux/comm/nccl_group_cuda.h"
#include "megaflux/layer/reference/reference.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/session/device_session_cuda.h"
#include "parity/step_data.h"

namespace megaflux::test {

// What of a forward does not show in its result.
struct Knobs {
  PlannerKind planner = PlannerKind::kFixed;
  ReplicaTransfer transfer = ReplicaTransfer::kPipelined;
  bool keeps_replicas = false;
  int32_t num_layers = 1;  // all of them with the same weights
  int64_t pool_rows = 0;
  int32_t num_sms = 0;
  int32_t lag_waves = 2;
  int32_t num_devices = 1;  // that ranks are dealt to evenly, from the first one on
  int32_t first_device = 0;
  // Of a process that hosts one rank of several; null = all ranks are here.
  const NcclConfig* process = nullptr;
  // Of every wait; longer under a sanitizer, unless a test waits for it.
  int32_t deadline_ms = gpu::by_size(2'000, 60'000, 5'000);
};

// y of the ranks of this process, bf16 bits.
using Outputs = std::vector<std::vector<uint16_t>>;

// What one rank holds on its device.
struct RankTensors {
  RankTensors(const StepData& data, int32_t rank, int32_t device)
      : x(std::span<const std::byte>(data.x[rank].bytes), device),
        y(data.x[rank].bytes.size() / sizeof(uint16_t), device),
        ids(ids_of(data.routing[rank]), device),
        weights(std::span<const float>(data.topk_weights[rank]), device),
        valid(std::vector<int32_t>{data.routing[rank].valid_tokens()}, device),
        w1(std::span<const std::byte>(data.w1[rank].bytes), device),
        w2(std::span<const std::byte>(data.w2[rank].bytes), device),
        b1(std::span<const float>(data.b1[rank]), device),
        b2(std::span<const float>(data.b2[rank]), device) {}
  // As the step's data have them now.
  void upload_weights(const StepData& data, int32_t rank) {
    w1.upload(std::span<const std::byte>(data.w1[rank].bytes));
    w2.upload(std::span<const std::byte>(data.w2[rank].bytes));
    b1.upload(std::span<const float>(data.b1[rank]));
    b2.upload(std::span<const float>(data.b2[rank]));
  }

  MegaWeights owned(const StepData& data, int32_t rank) const {
    const bool has_bias = data.shape().has_bias;
    return {.num_owned = owned_experts(data.owner_of, data.num_ranks())[rank],
            .w1 = w1.data(),
            .w2 = w2.data(),
            .b1 = has_bias ? b1.data() : nullptr,
            .b2 = has_bias ? b2.data() : nullptr};
  }
  RoutingView routing(const StepData& data, int32_t rank) const {
    RoutingView view = data.routing[rank];
    view.topk_ids = ids.data();
    view.topk_weights = weights.data();
    if (view.num_valid_tokens != nullptr) view.num_valid_tokens = valid.data();
    return view;
  }

  gpu::DeviceArray<std::byte> x;
  gpu::DeviceArray<uint16_t> y;
  gpu::DeviceArray<std::byte> ids;
  gpu::DeviceArray<float> weights;
  gpu::DeviceArray<int32_t> valid;
  gpu::DeviceArray<std::byte> w1, w2;
  gpu::DeviceArray<float> b1, b2;

 private:
  static std::span<const std::byte> ids_of(const RoutingView& routing) {
    const size_t bytes = routing.id_type == IdType::kInt16   ? 2
                         : routing.id_type == IdType::kInt32 ? 4
                                                             : 8;
    const size_t count = static_cast<size_t>(routing.num_tokens) * routing.topk;
    return {static_cast<const std::byte*>(routing.topk_ids), bytes * count};
  }
};

class ForwardRig {
 public:
  explicit ForwardRig(const StepData& data, const Knobs& knobs = {})
      : data_(data), transfer_(knobs.transfer) {
    std::vector<MegaWeights> weights;
    for (int32_t rank = 0; rank < data.num_ranks(); ++rank) {
      if (knobs.process != nullptr && knobs.process->rank != rank) continue;
      const int32_t device = knobs.process != nullptr
                                 ? knobs.process->device
                                 : knobs.first_device + rank * knobs.num_devices / data.num_ranks();
      hosted_.push_back(rank);
      device_of_.push_back(device);
      ranks_.emplace_back(data, rank, device);
      weights.push_back(ranks_.back().owned(data, rank));
    }
    MF_CUDA(cudaSetDevice(device_of_[0]));
    session_ = std::make_unique<DeviceSession>(
        config_of(data, knobs), [&](const Layout& layout) { return make_group(knobs, layout); });
    for (int32_t layer = 0; layer < knobs.num_layers; ++layer)
      session_->set_weights(layer, weights);
    session_->set_transfer(knobs.transfer);
    for (size_t i = 0; i < ranks_.size(); ++i) {
      tensors_.push_back({.x = ranks_[i].x.data(),
                          .y = ranks_[i].y.data(),
                          .routing = ranks_[i].routing(data, hosted_[i])});
    }
  }

  DeviceSession& session() { return *session_; }
  std::vector<ForwardTensors>& tensors() { return tensors_; }
  // Ranks of this process are numbered among themselves.
  RankTensors& rank(int32_t local_idx) { return ranks_[local_idx]; }
  int32_t num_local() const { return static_cast<int32_t>(hosted_.size()); }

  // As the step's data have them now.
  void upload_weights(int32_t local_idx) {
    ranks_[local_idx].upload_weights(data_, hosted_[local_idx]);
  }
  // W1 of a slot becomes NaNs.
  void spoil_slot(int32_t local_idx, int32_t slot) {
    const size_t bytes = data_.shape().w1_elements() * sizeof(Bf16);
    MF_CUDA(cudaMemset(session_->slots(local_idx).w1 + slot * bytes, 0xff, bytes));
    MF_CUDA(cudaDeviceSynchronize());
  }
  // Tokens of rank 0 from `num_valid` on are ignored.
  void limit_tokens(int32_t num_valid) {
    ranks_[0].valid.upload(std::vector<int32_t>{num_valid});
    tensors_[0].routing.num_valid_tokens = ranks_[0].valid.data();
  }
  // A head; without pulls, what its plan wants in the slots is put there.
  void route() {
    session_->route(tensors_);
    session_->group().synchronize();
    if (transfer_ != ReplicaTransfer::kInPlace) return;
    const std::vector<std::byte> bytes = session_->read_step(0).plan;
    PlanHeader header;
    std::copy_n(bytes.begin(), sizeof(header), reinterpret_cast<std::byte*>(&header));
    if (header.magic == PlanHeader{}.magic) fill_slots(Plan::from_bytes(bytes));
  }
  // In the place of what the head has planned.
  void set_plan(const Plan& plan) {
    session_->put_plan(plan, data_.loads());
    if (transfer_ == ReplicaTransfer::kInPlace) fill_slots(plan);
  }
  // One forward over poisoned memory.
  Outputs forward() {
    for (int32_t i = 0; i < num_local(); ++i) {
      ranks_[i].y.poison();
      poison(i, session_->fields().results);
      if (transfer_ != ReplicaTransfer::kInPlace) poison_slots(i);
    }
    session_->compute(tensors_);
    session_->group().synchronize();
    return outputs();
  }
  // A head and a forward of ranks that are all on the first device.
  gpu::CapturedLaunch captured_step() {
    return {session_->group().stream(0), [&] { session_->forward(tensors_); }};
  }
  Outputs step() {
    route();
    return forward();
  }
  Outputs outputs() const {
    Outputs all;
    for (const RankTensors& rank : ranks_) all.push_back(rank.y.download());
    return all;
  }

  template <typename T>
  std::vector<T> download(int32_t local_idx, Field<T> field) const {
    std::vector<T> values(field.count);
    MF_CUDA(cudaMemcpy(values.data(), at_base(session_->base(local_idx), field),
                       field.count * sizeof(T), cudaMemcpyDefault));
    return values;
  }
  template <typename T>
  void upload(int32_t local_idx, Field<T> field, std::span<const T> values) {
    MF_INVARIANT(values.size() <= field.count, "upload of ", values.size(), " to ", field.count);
    MF_CUDA(cudaMemcpy(at_base(session_->base(local_idx), field), values.data(),
                       values.size_bytes(), cudaMemcpyDefault));
    MF_CUDA(cudaDeviceSynchronize());
  }

 private:
  template <typename T>
  void poison(int32_t local_idx, Field<T> field) {
    MF_CUDA(cudaMemset(at_base(session_->base(local_idx), field), 0xff, field.count * sizeof(T)));
    MF_CUDA(cudaDeviceSynchronize());
  }
  void poison_slots(int32_t local_idx) {
    const LayerShape& shape = data_.shape();
    const size_t slots = static_cast<size_t>(data_.layer_case.replica_slots);
    const SlotPool& pool = session_->slots(local_idx);
    MF_CUDA(cudaMemset(pool.w1, 0xff, slots * shape.w1_elements() * sizeof(Bf16)));
    MF_CUDA(cudaMemset(pool.w2, 0xff, slots * shape.w2_elements() * sizeof(Bf16)));
    if (shape.has_bias) {
      MF_CUDA(cudaMemset(pool.b1, 0xff, slots * 2 * shape.inter * sizeof(float)));
      MF_CUDA(cudaMemset(pool.b2, 0xff, slots * shape.hidden * sizeof(float)));
    }
    MF_CUDA(cudaDeviceSynchronize());
  }
  // `slot`th of a pool = the `local`th of its owner's.
  template <typename T>
  static void copy_expert(void* pool, int32_t slot, const std::vector<T>& owned, int32_t local,
                          int64_t size) {
    MF_CUDA(cudaMemcpy(static_cast<T*>(pool) + slot * size, owned.data() + local * size,
                       static_cast<size_t>(size) * sizeof(T), cudaMemcpyDefault));
  }
  // The weights that a plan wants in its slots.
  void fill_slots(const Plan& plan) {
    const int32_t slots = plan.dims().replica_slots;
    for (int32_t i = 0; i < num_local(); ++i) {
      for (int32_t slot = 0; slot < slots; ++slot) {
        const int32_t expert = plan.slot_expert()[hosted_[i] * slots + slot];
        if (expert >= 0) fill_slot(i, slot, expert);
      }
    }
    MF_CUDA(cudaDeviceSynchronize());
  }
  void fill_slot(int32_t local_idx, int32_t slot, int32_t expert) {
    const LayerShape& shape = data_.shape();
    const int32_t from = local_index_of(data_.owner_of, data_.num_ranks())[expert];
    const int32_t owner = data_.owner_of[expert];
    const SlotPool& to = session_->slots(local_idx);
    constexpr int64_t kBytes = sizeof(Bf16);
    copy_expert(to.w1, slot, data_.w1[owner].bytes, from, kBytes * shape.w1_elements());
    copy_expert(to.w2, slot, data_.w2[owner].bytes, from, kBytes * shape.w2_elements());
    if (!shape.has_bias) return;
    copy_expert(to.b1, slot, data_.b1[owner], from, 2 * shape.inter);
    copy_expert(to.b2, slot, data_.b2[owner], from, shape.hidden);
  }

  static DeviceSessionConfig config_of(const StepData& data, const Knobs& knobs) {
    DeviceSessionConfig config;
    config.shape = data.shape();
    config.max_tokens = std::ranges::max(data.layer_case.tokens);
    config.plan.planner = knobs.planner;
    config.plan.dims = {.num_experts = data.shape().num_experts,
                        .num_ranks = data.num_ranks(),
                        .replica_slots = data.layer_case.replica_slots,
                        .block_rows = data.layer_case.block_rows};
    config.plan.owner_of = data.owner_of;
    config.ranks_per_device =
        knobs.process != nullptr ? 1 : ceil_div(data.num_ranks(), knobs.num_devices);
    config.num_layers = knobs.num_layers;
    config.keeps_replicas = knobs.keeps_replicas;
    config.pool_rows = knobs.pool_rows;
    config.num_sms = knobs.num_sms;
    config.lag_waves = knobs.lag_waves;
    return config;
  }
  std::unique_ptr<DeviceGroup> make_group(const Knobs& knobs, const Layout& layout) const {
    WaitConfig waits;
    waits.deadline = std::chrono::milliseconds(knobs.deadline_ms);
    if (knobs.process == nullptr) {
      return std::make_unique<LocalGroup>(LocalConfig{.device_of = device_of_, .waits = waits},
                                          layout);
    }
    NcclConfig config = *knobs.process;
    config.waits = waits;
    return std::make_unique<NcclGroup>(config, layout);
  }

  const StepData& data_;
  ReplicaTransfer transfer_;
  // Of the ranks of this process.
  std::vector<int32_t> hosted_, device_of_;
  std::vector<RankTensors> ranks_;
  std::unique_ptr<DeviceSession> session_;
  std::vector<ForwardTensors> tensors_;
};

inline float value_of(uint16_t bits) {
  Bf16 value;
  value.bits = bits;
  return static_cast<float>(value);
}

// y of the whole case in fp64, by rank.
inline std::vector<std::vector<double>> reference_y(const StepData& data) {
  ReferenceProblem problem = data.problem();
  problem.dy = {};
  return reference_output(problem, fixed_plan(data, 128)).y;
}

// Root mean square of the difference over that of the reference, the worst of all ranks; a NaN, an
// Inf or another size is infinite.
inline double relative_error(const Outputs& got, const std::vector<std::vector<double>>& want) {
  double worst = 0;
  for (size_t rank = 0; rank < want.size(); ++rank) {
    double difference = 0, expected = 0;
    if (got[rank].size() != want[rank].size()) return std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < want[rank].size(); ++i) {
      const double d = value_of(got[rank][i]) - want[rank][i];
      difference += d * d;
      expected += want[rank][i] * want[rank][i];
    }
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    if (difference > 0) {
      worst = std::max(worst, std::sqrt(difference / std::max(expected, 1e-300)));
    }
  }
  return worst;
}

// A, O and y are rounded to bf16, 2^-9 relative at most each and 0.29 of that in the mean square:
// sqrt(3) * 1.13e-3, and fp32 sums besides.
inline constexpr double kTolerance = 4e-3;

inline LayerShape shape_of(int32_t experts, int32_t topk, int32_t hidden, int32_t inter) {
  return {.num_experts = experts, .topk = topk, .hidden = hidden, .inter = inter};
}

inline LayerCase case_of(const LayerShape& shape, int32_t tokens,
                         RouteKind route = RouteKind::kUniform) {
  return {.name = "", .shape = shape, .tokens = {tokens}, .route = route, .replica_slots = 0};
}

}  // namespace megaflux::test
