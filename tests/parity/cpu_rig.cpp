#include "parity/cpu_rig.h"

#include <algorithm>
#include <limits>

namespace megaflux {
namespace {

CpuLayerConfig make_config(const StepData& data, const RigOptions& options) {
  const LayerCase& c = data.layer_case;
  const int32_t tiles = options.pool_tiles >= 0 ? options.pool_tiles : c.pool_tiles;
  return resolve_config({.shape = c.shape,
                         .num_ranks = c.num_ranks(),
                         .replica_slots = c.replica_slots,
                         .max_tokens = *std::max_element(c.tokens.begin(), c.tokens.end()),
                         .pool_rows = int64_t{tiles} * kTileRows,
                         .fc2_lag_tiles = options.fc2_lag_tiles,
                         .owner_of = data.owner_of,
                         .gemm = options.gemm,
                         .packing = options.packing,
                         // A stale slot must hold something that a result can be wrong by.
                         .is_memory_poisoned = options.fault != Fault::kStaleSlot});
}

std::vector<float> poisoned(int64_t count) {
  return std::vector<float>(count, std::numeric_limits<float>::quiet_NaN());
}

}  // namespace

CpuRig::CpuRig(const StepData& data, const RigOptions& options)
    : data_(&data), options_(options), config_(make_config(data, options)) {
  Layout layout;
  const RouteFields routes =
      add_route_fields(layout, config_.shape.num_experts, config_.shape.topk, config_.max_tokens);
  fields_ = add_layer_fields(layout, config_, routes);
  group_ = std::make_unique<ThreadsGroup>(
      ThreadsConfig{.num_ranks = config_.num_ranks,
                    .num_roles = 2,
                    .start_epoch = 0xfffffffeu,  // every test crosses the wrap
                    .waits = {.deadline = options.deadline}},
      layout);
  for (int32_t rank = 0; rank < config_.num_ranks; ++rank) {
    workspaces_.push_back(std::make_unique<RankWorkspace>(config_, fields_, rank));
  }
  const auto ranks = static_cast<size_t>(config_.num_ranks);
  forward_work_.resize(ranks);
  backward_work_.resize(ranks);
  z_.resize(ranks);
  z_stores_.resize(ranks);
  loads_ = data.loads();
}

Launch CpuRig::launch_of(int32_t rank, LaunchOp op, const Plan& plan, const WorkList& work) const {
  const bool is_backward = op == LaunchOp::kBackward;
  return {.words = {.op = op, .layer = 3, .plan_hash = plan.hash(), .config_hash = 9},
          .plan = &plan,
          .loads = &loads_,
          .work = &work,
          .routing = data_->routing[rank],
          .x = data_->x[rank].bytes.data(),
          .dy = is_backward ? data_->dy[rank].bytes.data() : nullptr,
          .weights = data_->owned(rank),
          .weight_version = static_cast<uint64_t>(weight_version),
          .fault = options_.fault};
}

void CpuRig::forward(const Plan& plan, ZChoice z, StepOutput& out) {
  const LayerShape& shape = config_.shape;
  const auto ranks = static_cast<size_t>(config_.num_ranks);
  plan_ = plan;
  out.y.assign(ranks, {});
  std::vector<ForwardLaunch> tasks(ranks);
  for (int32_t rank = 0; rank < config_.num_ranks; ++rank) {
    out.y[rank] = TypedVector(shape.dtype, data_->x[rank].size());
    out.y[rank].poison();
    forward_work_[rank].assign(plan_, loads_, rank, PartOrder::kOwnedFirst);
    const int64_t tiles = forward_work_[rank].num_tiles();
    const int64_t rows = z == ZChoice::kSaved    ? tiles * kTileRows
                         : z == ZChoice::kPartly ? tiles / 2 * kTileRows
                                                 : 0;
    z_[rank].assign(rows * 2 * shape.inter * dtype_bytes(shape.dtype), std::byte{0xff});
    z_stores_[rank] = {.data = rows > 0 ? z_[rank].data() : nullptr, .rows = rows};
    tasks[rank] = {.launch = launch_of(rank, LaunchOp::kForward, plan_, forward_work_[rank]),
                   .y = out.y[rank].bytes.data(),
                   .z = z_stores_[rank]};
  }
  group_->run([&](RankContext& ctx) { run_forward(ctx, *workspaces_[ctx.rank], tasks[ctx.rank]); });
  out.forward.clear();
  for (const auto& workspace : workspaces_) out.forward.push_back(workspace->report);
}

void CpuRig::shape_gradients(GradientMode mode, StepOutput& out) const {
  const auto ranks = static_cast<size_t>(config_.num_ranks);
  const DType dtype = mode == GradientMode::kNewBf16 ? DType::kBf16 : DType::kFp32;
  out.w1.assign(ranks, {});
  out.w2.assign(ranks, {});
  out.b1.assign(ranks, {});
  out.b2.assign(ranks, {});
  for (size_t rank = 0; rank < ranks; ++rank) {
    out.w1[rank] = TypedVector(dtype, data_->w1[rank].size());
    out.w2[rank] = TypedVector(dtype, data_->w2[rank].size());
    out.b1[rank] = poisoned(static_cast<int64_t>(data_->b1[rank].size()));
    out.b2[rank] = poisoned(static_cast<int64_t>(data_->b2[rank].size()));
    out.w1[rank].poison();
    out.w2[rank].poison();
    if (mode != GradientMode::kAddToMain) continue;
    for (int64_t i = 0; i < out.w1[rank].size(); ++i) out.w1[rank].set(i, main_grad_);
    for (int64_t i = 0; i < out.w2[rank].size(); ++i) out.w2[rank].set(i, main_grad_);
    std::fill(out.b1[rank].begin(), out.b1[rank].end(), main_grad_);
    std::fill(out.b2[rank].begin(), out.b2[rank].end(), main_grad_);
  }
}

void CpuRig::backward(GradientMode mode, StepOutput& out, const Plan* fresh_plan) {
  const Plan plan = fresh_plan != nullptr ? *fresh_plan : plan_;
  const auto ranks = static_cast<size_t>(config_.num_ranks);
  shape_gradients(mode, out);
  out.dx.assign(ranks, {});
  out.dp.assign(ranks, {});
  std::vector<BackwardLaunch> tasks(ranks);
  for (int32_t rank = 0; rank < config_.num_ranks; ++rank) {
    out.dx[rank] = TypedVector(config_.shape.dtype, data_->x[rank].size());
    out.dx[rank].poison();
    out.dp[rank] = poisoned(int64_t{data_->layer_case.tokens[rank]} * config_.shape.topk);
    backward_work_[rank].assign(plan, loads_, rank, PartOrder::kReplicatedFirst);
    tasks[rank] = {.launch = launch_of(rank, LaunchOp::kBackward, plan, backward_work_[rank]),
                   .z = fresh_plan != nullptr ? ZStore{} : z_stores_[rank],
                   .forward_work = fresh_plan != nullptr ? nullptr : &forward_work_[rank],
                   .dx = out.dx[rank].bytes.data(),
                   .dp = out.dp[rank].data(),
                   .gradients = {.mode = mode,
                                 .w1 = out.w1[rank].bytes.data(),
                                 .w2 = out.w2[rank].bytes.data(),
                                 .b1 = config_.shape.has_bias ? out.b1[rank].data() : nullptr,
                                 .b2 = config_.shape.has_bias ? out.b2[rank].data() : nullptr}};
  }
  group_->run(
      [&](RankContext& ctx) { run_backward(ctx, *workspaces_[ctx.rank], tasks[ctx.rank]); });
  out.backward.clear();
  for (const auto& workspace : workspaces_) out.backward.push_back(workspace->report);
}

StepOutput CpuRig::step(const Plan& plan, GradientMode mode) {
  StepOutput out;
  forward(plan, data_->layer_case.z, out);
  backward(mode, out);
  return out;
}

}  // namespace megaflux
