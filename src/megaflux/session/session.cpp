#include "megaflux/session/session.h"

#include <algorithm>
#include <utility>

#include "megaflux/base/check.h"
#include "megaflux/plan/legality.h"
#include "megaflux/session/session_config.h"

namespace megaflux {

Session::Session(SessionConfig config)
    : config_(complete_config(std::move(config))),
      layer_(layer_config_of(config_)),
      layers_(config_.num_layers),
      arena_("session", config_.max_contexts) {
  const HeadConfig head = head_config_of(config_, layer_);
  config_hash_ = head_config_hash(head);
  Layout layout;
  const RouteFields routes = add_head_fields(layout, head);
  const LayerFields fields = add_layer_fields(layout, layer_, routes);
  group_ = std::make_unique<ThreadsGroup>(ThreadsConfig{.num_ranks = layer_.num_ranks,
                                                        .num_roles = 2,
                                                        .payload_words = head_payload_words(head),
                                                        .waits = config_.waits},
                                          layout);
  const auto ranks = static_cast<size_t>(layer_.num_ranks);
  for (int32_t rank = 0; rank < layer_.num_ranks; ++rank) {
    workspaces_.push_back(std::make_unique<RankWorkspace>(layer_, fields, rank));
    heads_.push_back(std::make_unique<Head>(head, routes));
  }
  for (LayerWeights& weights : layers_) {
    weights.ranks.resize(ranks);
    weights.is_set.resize(ranks);
  }
  slots_.resize(ranks * layer_.replica_slots);
  residents_.resize(slots_.size());
  is_slot_filled_.resize(slots_.size());
  forward_work_.resize(ranks);
  backward_work_.resize(ranks);
  forward_launches_.resize(ranks);
  backward_launches_.resize(ranks);
}

int64_t Session::z_bytes() const {
  return config_.z_rows * 2 * layer_.shape.inter * dtype_bytes(layer_.shape.dtype);
}

void Session::set_weights(int32_t layer, int32_t rank, const OwnedWeights& weights) {
  check_layer(layer);
  MF_CHECK(rank >= 0 && rank < num_ranks(), "rank: ", rank, " is outside [0, ", num_ranks(), ")");
  if (workspaces_[rank]->num_owned > 0) {
    MF_CHECK(weights.w1 != nullptr && weights.w2 != nullptr, "weights of layer ", layer, ", rank ",
             rank, ": w1 or w2 is null");
    MF_CHECK((weights.b1 != nullptr) == layer_.shape.has_bias &&
                 (weights.b2 != nullptr) == layer_.shape.has_bias,
             "weights of layer ", layer, ", rank ", rank,
             ": biases given = ", weights.b1 != nullptr, ", the shape says ",
             layer_.shape.has_bias);
  }
  layers_[layer].ranks[rank] = weights;
  layers_[layer].is_set[rank] = 1;
  weights_changed(layer);
}

void Session::weights_changed(int32_t layer) {
  check_layer(layer);
  ++layers_[layer].version;
}

void Session::check_layer(int32_t layer) const {
  MF_CHECK(layer >= 0 && layer < config_.num_layers, "layer: ", layer, " is outside [0, ",
           config_.num_layers, ")");
}

void Session::check_weights(int32_t layer) const {
  check_layer(layer);
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    MF_CHECK(layers_[layer].is_set[rank] != 0 || workspaces_[rank]->num_owned == 0, "layer ", layer,
             ", rank ", rank, ": set_weights was not called");
  }
}

void Session::check_forward(const ForwardCall& call) const {
  check_weights(call.layer);
  const auto ranks = static_cast<size_t>(num_ranks());
  MF_CHECK(call.routing.size() == ranks && call.x.size() == ranks && call.y.size() == ranks,
           "forward: routing, x and y of ", call.routing.size(), ", ", call.x.size(), " and ",
           call.y.size(), " ranks, the session has ", ranks);
  const auto tokens_at = [&](size_t rank) -> RankTokens {
    return {.num_tokens = call.routing[rank].num_tokens,
            .max_tokens = config_.max_tokens,
            .rank = static_cast<int32_t>(rank),
            .row_bytes = config_.shape.hidden * dtype_bytes(config_.shape.dtype)};
  };
  for (size_t rank = 0; rank < ranks; ++rank) {
    check_tensors(tokens_at(rank), {{"x", call.x[rank]}, {"y", call.y[rank]}});
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (size_t other = 0; other < ranks; ++other) {
      check_not_in_place(tokens_at(rank), {"y", call.y[rank]}, tokens_at(other),
                         {{"x", call.x[other]}});
    }
  }
}

const ForwardState& Session::state_of(const ForwardContext& context) const {
  const ForwardState& state = context.state();
  MF_CHECK(arena_.owns(context), "forward context of layer ", state.layer,
           ": made by another session");
  return state;
}

ForwardContext Session::acquire_context() {
  ForwardContext context = arena_.acquire();
  ForwardState& state = context.state();
  state.ranks.resize(num_ranks());
  for (SavedRank& rank : state.ranks) {
    rank.reserve_routing(config_.max_tokens, config_.shape.topk);
  }
  return context;
}

std::span<const int32_t> Session::find_residents(int32_t layer) {
  if (!config_.keeps_replicas) return {};
  for (size_t i = 0; i < slots_.size(); ++i) {
    const SlotContent& slot = slots_[i];
    const bool is_current = slot.layer == layer && slot.version == layers_[layer].version;
    residents_[i] = is_current ? slot.expert : -1;
  }
  return residents_;
}

bool Session::run_head(const ForwardCall& call, StepReport& report) {
  const int64_t begin = wall_ns();
  const std::span<const int32_t> resident = find_residents(call.layer);
  const std::span<const std::byte> outside =
      call.plan != nullptr ? call.plan->bytes() : std::span<const std::byte>();
  group_->run(Role::kCompute, [&](RankContext& ctx) {
    heads_[ctx.rank]->step(ctx, {.routing = call.routing[ctx.rank],
                                 .layer = call.layer,
                                 .resident = resident,
                                 .weight_version = layers_[call.layer].version,
                                 .outside_plan = outside});
  });
  report.head_ns = wall_ns() - begin;
  report.plan = heads_[0]->report();
  return report.plan.has_plan();
}

void Session::fill_launch(const ForwardState& state, const Plan& plan, int32_t rank,
                          Launch& launch) const {
  launch = {.words = {.layer = state.layer, .plan_hash = plan.hash(), .config_hash = config_hash_},
            .plan = &plan,
            .loads = &state.loads,
            .routing = state.ranks[rank].routing(),
            .x = state.ranks[rank].x,
            .weights = layers_[state.layer].ranks[rank],
            .weight_version = layers_[state.layer].version,
            .is_slot_filled = std::span(is_slot_filled_)
                                  .subspan(static_cast<size_t>(rank) * layer_.replica_slots,
                                           layer_.replica_slots)};
}

void Session::mark_filled_slots(int32_t layer, const Plan& plan) {
  const auto wanted = plan.slot_expert();
  for (size_t i = 0; i < slots_.size(); ++i) {
    is_slot_filled_[i] = config_.keeps_replicas && wanted[i] >= 0 &&
                         slots_[i] == SlotContent{layer, wanted[i], layers_[layer].version};
  }
}

void Session::record_slots(int32_t layer, const Plan& plan, Fault fault) {
  const auto wanted = plan.slot_expert();
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (wanted[i] < 0) continue;
    slots_[i] = fault == Fault::kNone ? SlotContent{layer, wanted[i], layers_[layer].version}
                                      : SlotContent();
  }
}

ForwardContext Session::forward(const ForwardCall& call, StepReport& report) {
  check_forward(call);
  ForwardContext context = acquire_context();
  if (!run_head(call, report)) return {};
  ForwardState& state = context.state();
  state.plan = heads_[0]->plan();
  state.loads = heads_[0]->loads();
  state.layer = call.layer;
  state.weight_version = layers_[call.layer].version;
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    state.ranks[rank].save_routing(call.routing[rank]);
  }
  execute_forward(state,
                  {.op = LaunchOp::kForward,
                   .x = call.x,
                   .y = call.y,
                   .keeps_z = call.keeps_z,
                   .fault = call.fault},
                  report);
  return context;
}

ForwardContext Session::replay(const ForwardContext& saved, std::span<const void* const> x,
                               std::span<void* const> y, StepReport& report) {
  const ForwardState& from = state_of(saved);
  check_weights(from.layer);
  check_same_version(from, layers_[from.layer].version);
  MF_CHECK(x.size() == from.ranks.size() && y.size() == from.ranks.size(), "replay: x and y of ",
           x.size(), " and ", y.size(), " ranks, the session has ", from.ranks.size());
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    const RankTokens tokens = tokens_of(from, config_.shape, rank);
    check_tensors(tokens, {{"x", x[rank]}, {"y", y[rank]}});
    for (int32_t other = 0; other < num_ranks(); ++other) {
      check_not_in_place(tokens, {"y", y[rank]}, tokens_of(from, config_.shape, other),
                         {{"x", x[other]}});
    }
  }
  ForwardContext context = acquire_context();
  ForwardState& state = context.state();
  state.plan = from.plan;
  state.loads = from.loads;
  state.layer = from.layer;
  state.weight_version = from.weight_version;
  for (size_t rank = 0; rank < from.ranks.size(); ++rank) {
    state.ranks[rank].save_routing(from.ranks[rank].routing());
  }
  report.head_ns = 0;
  execute_forward(state, {.op = LaunchOp::kReplay, .x = x, .y = y}, report);
  return context;
}

void Session::execute_forward(ForwardState& state, const Execution& execution, StepReport& report) {
  const int64_t begin = wall_ns();
  mark_filled_slots(state.layer, state.plan);
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    SavedRank& saved = state.ranks[rank];
    saved.x = execution.x[rank];
    forward_work_[rank].assign(state.plan, state.loads, rank, PartOrder::kOwnedFirst);
    const int64_t rows = int64_t{forward_work_[rank].num_tiles()} * kTileRows;
    saved.z_rows = execution.keeps_z ? std::min(rows, config_.z_rows) : 0;
    if (execution.keeps_z) saved.reserve_z(z_bytes());
    ForwardLaunch& task = forward_launches_[rank];
    fill_launch(state, state.plan, rank, task.launch);
    task.launch.words.op = execution.op;
    task.launch.work = &forward_work_[rank];
    // A replay has no head, and the lists in the heap are those of another step.
    task.launch.has_route_list = execution.op == LaunchOp::kForward;
    task.launch.fault = execution.fault;
    task.y = execution.y[rank];
    task.z = {.data = saved.z_rows > 0 ? saved.z.get() : nullptr, .rows = saved.z_rows};
  }
  group_->run([&](RankContext& ctx) {
    run_forward(ctx, *workspaces_[ctx.rank], forward_launches_[ctx.rank]);
    if (ctx.rank == 0 && ctx.role == Role::kCompute) state.epoch = ctx.epoch;
  });
  record_slots(state.layer, state.plan, execution.fault);
  report.layer_ns = wall_ns() - begin;
  collect(report);
}

const Plan& Session::backward_plan(const ForwardState& state, const BackwardCall& call,
                                   StepReport& report) {
  if (call.plan != nullptr) {
    fresh_plan_ =
        adopt_plan(call.plan->bytes(), state.loads, config_.plan, find_residents(state.layer));
    return fresh_plan_;
  }
  if (!call.plans_afresh) return state.plan;
  const int64_t begin = wall_ns();
  if (backward_planner_ == nullptr) {
    PlanConfig config = config_.plan;
    if (config.objective == Objective::kForward) config.objective = Objective::kBackward;
    backward_planner_ = make_planner(std::move(config));
  }
  backward_planner_->plan(state.loads, find_residents(state.layer), fresh_plan_, report.plan);
  check_runs_as_configured(backward_planner_->config(), report.plan);
  MF_INVARIANT(report.plan.has_plan(), "loads that had a forward plan have none for backward");
  report.head_ns = wall_ns() - begin;
  return fresh_plan_;
}

void Session::backward(ForwardContext& context, const BackwardCall& call, StepReport& report) {
  const ForwardState& state = state_of(context);
  check_weights(state.layer);
  check_same_version(state, layers_[state.layer].version);
  check_backward_call(state, call, layer_);
  group_->check_sound();
  const int64_t begin = wall_ns();
  report.head_ns = 0;
  const Plan& plan = backward_plan(state, call, report);
  context.consume();
  mark_filled_slots(state.layer, plan);
  const bool has_saved_z = &plan == &state.plan;
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    const SavedRank& saved = state.ranks[rank];
    forward_work_[rank].assign(state.plan, state.loads, rank, PartOrder::kOwnedFirst);
    backward_work_[rank].assign(plan, state.loads, rank, PartOrder::kReplicatedFirst);
    BackwardLaunch& task = backward_launches_[rank];
    fill_launch(state, plan, rank, task.launch);
    task.launch.words.op = LaunchOp::kBackward;
    task.launch.work = &backward_work_[rank];
    task.launch.dy = call.dy[rank];
    task.launch.fault = call.fault;
    task.z = {.data = has_saved_z && saved.z_rows > 0 ? saved.z.get() : nullptr,
              .rows = has_saved_z ? saved.z_rows : 0};
    task.forward_work = has_saved_z ? &forward_work_[rank] : nullptr;
    task.dx = call.dx[rank];
    task.dp = call.dp[rank];
    task.gradients = call.gradients[rank];
  }
  group_->run([&](RankContext& ctx) {
    run_backward(ctx, *workspaces_[ctx.rank], backward_launches_[ctx.rank]);
  });
  record_slots(state.layer, plan, call.fault);
  report.layer_ns = wall_ns() - begin - report.head_ns;
  collect(report);
  context.release();
}

void Session::collect(StepReport& report) const {
  report.ranks.resize(num_ranks());
  for (int32_t rank = 0; rank < num_ranks(); ++rank) report.ranks[rank] = workspaces_[rank]->report;
}

void Session::recover() {
  group_->recover();
  std::fill(slots_.begin(), slots_.end(), SlotContent());
}

}  // namespace megaflux
