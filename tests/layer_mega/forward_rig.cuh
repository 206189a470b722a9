// Random steps of a layer case on device 0, the outputs of forwards, and how far they are from the
// reference.
#pragma once

#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/gpu_test.cuh"
#include "layer_mega/headed_layer.cuh"
#include "megaflux/layer/reference/reference.h"
#include "parity/step_data.h"

namespace megaflux::test {

// What of a forward does not show in its result.
struct Knobs {
  int64_t pool_rows = 0;
  int32_t num_sms = 0;
  int32_t lag_waves = 2;
  // Of every wait; longer under a sanitizer, unless a test waits for it.
  int32_t deadline_ms = gpu::by_size(2'000, 60'000, 5'000);
};

class ForwardRig {
 public:
  explicit ForwardRig(const StepData& data, const Knobs& knobs = {})
      : data_(data),
        x_(std::span<const std::byte>(data.x[0].bytes)),
        w1_(std::span<const std::byte>(data.w1[0].bytes)),
        w2_(std::span<const std::byte>(data.w2[0].bytes)),
        b1_(std::span<const float>(data.b1[0])),
        b2_(std::span<const float>(data.b2[0])),
        ids_(ids_of(data.routing[0])),
        weights_(std::span<const float>(data.topk_weights[0])),
        valid_(std::vector<int32_t>{data.routing[0].valid_tokens()}),
        y_(data.x[0].bytes.size() / sizeof(uint16_t)) {
    const MegaConfig config = resolve_config({.shape = data.shape(),
                                              .max_tokens = data.layer_case.tokens[0],
                                              .pool_rows = knobs.pool_rows,
                                              .num_sms = knobs.num_sms,
                                              .lag_waves = knobs.lag_waves},
                                             sms_of(0));
    const bool has_bias = data.shape().has_bias;
    WaitConfig waits;
    waits.deadline = std::chrono::milliseconds(knobs.deadline_ms);
    layer_ = std::make_unique<HeadedLayer>(config,
                                           MegaWeights{.w1 = w1_.data(),
                                                       .w2 = w2_.data(),
                                                       .b1 = has_bias ? b1_.data() : nullptr,
                                                       .b2 = has_bias ? b2_.data() : nullptr},
                                           waits);
    routing_ = data.routing[0];
    routing_.topk_ids = ids_.data();
    routing_.topk_weights = weights_.data();
    if (routing_.num_valid_tokens != nullptr) routing_.num_valid_tokens = valid_.data();
  }

  HeadedLayer& layer() { return *layer_; }
  const RoutingView& routing() const { return routing_; }
  ForwardInputs inputs() const { return layer_->inputs(routing_, x_.data(), y_.data()); }
  gpu::DeviceArray<std::byte>& ids() { return ids_; }
  gpu::DeviceArray<uint16_t>& y() { return y_; }

  // Tokens from `num_valid` on are ignored.
  void limit_tokens(int32_t num_valid) {
    valid_.upload(std::vector<int32_t>{num_valid});
    routing_.num_valid_tokens = valid_.data();
  }
  void route() {
    layer_->launch_head(routing_);
    layer_->group().synchronize();
  }
  // bf16 bits of y, after one forward over poisoned memory.
  std::vector<uint16_t> forward() {
    y_.poison();
    poison(layer_->fields().results);
    layer_->launch_forward(inputs());
    layer_->group().synchronize();
    return y_.download();
  }
  std::vector<uint16_t> step() {
    route();
    return forward();
  }
  template <typename T>
  std::vector<T> download(Field<T> field) const {
    std::vector<T> values(field.count);
    MF_CUDA(cudaMemcpy(values.data(), layer_->at(field), field.count * sizeof(T),
                       cudaMemcpyDeviceToHost));
    return values;
  }
  template <typename T>
  void upload(Field<T> field, std::span<const T> values) {
    MF_CUDA(
        cudaMemcpy(layer_->at(field), values.data(), values.size_bytes(), cudaMemcpyHostToDevice));
    MF_CUDA(cudaDeviceSynchronize());
  }

 private:
  static std::span<const std::byte> ids_of(const RoutingView& routing) {
    const size_t bytes = routing.id_type == IdType::kInt16   ? 2
                         : routing.id_type == IdType::kInt32 ? 4
                                                             : 8;
    const size_t count = static_cast<size_t>(routing.num_tokens) * routing.topk;
    return {static_cast<const std::byte*>(routing.topk_ids), count * bytes};
  }
  template <typename T>
  void poison(Field<T> field) {
    MF_CUDA(cudaMemset(layer_->at(field), 0xff, field.count * sizeof(T)));
    MF_CUDA(cudaDeviceSynchronize());
  }

  const StepData& data_;
  gpu::DeviceArray<std::byte> x_, w1_, w2_;
  gpu::DeviceArray<float> b1_, b2_;
  gpu::DeviceArray<std::byte> ids_;
  gpu::DeviceArray<float> weights_;
  gpu::DeviceArray<int32_t> valid_;
  gpu::DeviceArray<uint16_t> y_;
  std::unique_ptr<HeadedLayer> layer_;
  RoutingView routing_;
};

inline float value_of(uint16_t bits) {
  Bf16 value;
  value.bits = bits;
  return static_cast<float>(value);
}

// Root mean square of the difference over that of the reference; a NaN or an Inf is infinite.
inline double relative_error(const std::vector<uint16_t>& got, std::span<const double> want) {
  double difference = 0, expected = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = value_of(got[i]) - want[i];
    difference += d * d;
    expected += want[i] * want[i];
  }
  if (!std::isfinite(difference) || got.size() != want.size()) {
    return std::numeric_limits<double>::infinity();
  }
  return difference == 0 ? 0 : std::sqrt(difference / std::max(expected, 1e-300));
}

// y of the whole case in fp64.
inline std::vector<double> reference_y(const StepData& data) {
  ReferenceProblem problem = data.problem();
  problem.dy = {};
  return reference_output(problem, fixed_plan(data, 128)).y[0];
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
