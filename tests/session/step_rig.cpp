#include "session/step_rig.h"

#include <algorithm>
#include <limits>

namespace megaflux {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

SessionConfig session_config(const StepData& data) {
  const LayerCase& c = data.layer_case;
  SessionConfig config;
  config.shape = c.shape;
  config.max_tokens = *std::max_element(c.tokens.begin(), c.tokens.end());
  config.plan.dims = {.num_experts = c.shape.num_experts,
                      .num_ranks = c.num_ranks(),
                      .replica_slots = c.replica_slots,
                      .block_rows = c.block_rows};
  config.plan.owner_of = data.owner_of;
  config.pool_rows = int64_t{c.pool_tiles} * kTileRows;
  config.z_rows = c.z == ZChoice::kSaved ? -1 : c.z == ZChoice::kPartly ? kTileRows : 0;
  config.is_memory_poisoned = true;
  config.waits.deadline = std::chrono::milliseconds(60'000);
  return config;
}

StepRig::StepRig(const StepData& data, int32_t num_layers)
    : StepRig(data, [&] {
        SessionConfig config = session_config(data);
        config.num_layers = num_layers;
        return config;
      }()) {}

StepRig::StepRig(const StepData& data, const SessionConfig& config)
    : data_(&data), session_(std::make_unique<Session>(config)) {
  const auto ranks = static_cast<size_t>(data.num_ranks());
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (int32_t rank = 0; rank < data.num_ranks(); ++rank) {
      session_->set_weights(layer, rank, data.owned(rank));
    }
  }
  out.y.resize(ranks);
  out.dx.resize(ranks);
  out.dp.resize(ranks);
  out.w1.resize(ranks);
  out.w2.resize(ranks);
  out.b1.resize(ranks);
  out.b2.resize(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    out.y[rank] = TypedVector(data.shape().dtype, data.x[rank].size());
    out.dx[rank] = out.y[rank];
    out.dp[rank].resize(data.topk_weights[rank].size());
    out.b1[rank].resize(data.b1[rank].size());
    out.b2[rank].resize(data.b2[rank].size());
    x_.push_back(data.x[rank].bytes.data());
    dy_.push_back(data.dy[rank].bytes.data());
    y_.push_back(out.y[rank].bytes.data());
    dx_.push_back(out.dx[rank].bytes.data());
    dp_.push_back(out.dp[rank].data());
  }
}

ForwardContext StepRig::forward(int32_t layer, const Plan* plan, Fault fault) {
  for (TypedVector& y : out.y) y.poison();
  return session_->forward(
      {.layer = layer, .routing = data_->routing, .x = x_, .y = y_, .plan = plan, .fault = fault},
      report);
}

ForwardContext StepRig::replay(const ForwardContext& saved) {
  for (TypedVector& y : out.y) y.poison();
  return session_->replay(saved, x_, y_, report);
}

BackwardCall StepRig::backward_call(BackwardCall call, GradientMode mode) {
  const DType dtype = mode == GradientMode::kNewBf16 ? DType::kBf16 : DType::kFp32;
  gradients_.clear();
  for (size_t rank = 0; rank < out.y.size(); ++rank) {
    out.dx[rank].poison();
    std::fill(out.dp[rank].begin(), out.dp[rank].end(), kNan);
    std::fill(out.b1[rank].begin(), out.b1[rank].end(), kNan);
    std::fill(out.b2[rank].begin(), out.b2[rank].end(), kNan);
    if (out.w1[rank].dtype != dtype || out.w1[rank].bytes.empty()) {
      out.w1[rank] = TypedVector(dtype, data_->w1[rank].size());
      out.w2[rank] = TypedVector(dtype, data_->w2[rank].size());
    }
    out.w1[rank].poison();
    out.w2[rank].poison();
    gradients_.push_back({.mode = mode,
                          .w1 = out.w1[rank].bytes.data(),
                          .w2 = out.w2[rank].bytes.data(),
                          .b1 = data_->shape().has_bias ? out.b1[rank].data() : nullptr,
                          .b2 = data_->shape().has_bias ? out.b2[rank].data() : nullptr});
  }
  call.dy = dy_;
  call.dx = dx_;
  call.dp = dp_;
  call.gradients = gradients_;
  return call;
}

void StepRig::backward(ForwardContext& context, BackwardCall call, GradientMode mode) {
  session_->backward(context, backward_call(call, mode), report);
}

StepOutput StepRig::step(int32_t layer, const Plan* plan) {
  ForwardContext context = forward(layer, plan);
  out.forward = report.ranks;
  backward(context);
  out.backward = report.ranks;
  return out;
}

}  // namespace megaflux
