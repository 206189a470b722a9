#include "megaflux/session/device_session_cuda.h"

#include <algorithm>

#include "megaflux/layer/mega/slot_table_cuda.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/moe/work_list.h"
#include "megaflux/plan/legality.h"

namespace megaflux {
namespace {

std::vector<int32_t> owners_of(const PlanConfig& plan) {
  if (!plan.owner_of.empty()) return plan.owner_of;
  return contiguous_owners(plan.dims.num_experts, plan.dims.num_ranks);
}

int32_t most_owned(const PlanConfig& plan) {
  return std::ranges::max(owned_experts(owners_of(plan), plan.dims.num_ranks));
}

MegaConfig mega_config_of(const DeviceSessionConfig& config) {
  const PlanDims& dims = config.plan.dims;
  MF_CHECK(dims.num_experts == config.shape.num_experts, "plan: E ", dims.num_experts,
           ", the shape has ", config.shape.num_experts);
  MF_CHECK(config.ranks_per_device >= 1 && config.ranks_per_device <= kMaxLocalRanks,
           "ranks_per_device: ", config.ranks_per_device, " is outside [1, ", kMaxLocalRanks, "]");
  int device = 0;
  MF_CUDA(cudaGetDevice(&device));
  return resolve_config({.shape = config.shape,
                         .num_ranks = dims.num_ranks,
                         .most_owned = most_owned(config.plan),
                         .replica_slots = dims.replica_slots,
                         .max_tokens = config.max_tokens,
                         .pool_rows = config.pool_rows,
                         .num_sms = config.num_sms,
                         .lag_waves = config.lag_waves},
                        sms_of(device) / config.ranks_per_device);
}

PlannedFields planned_of(const DeviceHeadFields& head, const PlanDims& dims) {
  PlannedFields planned = planned_for(dims);
  planned.routes = head.routes;
  planned.source_begin = head.source_begin;
  planned.route_offsets = head.route_offsets;
  planned.plan = head.plan;
  planned.work = head.work;
  planned.parts = head.parts;
  return planned;
}

// Of no layer.
constexpr SlotKey kNobodys = {.weight_version = 0, .layer = -1};

SlotKey key_of(const DeviceHeadStep& step) {
  return {.weight_version = step.weight_version, .layer = step.layer};
}

}  // namespace

DeviceSession::DeviceSession(const DeviceSessionConfig& config, const GroupMaker& make_group) {
  check_device_config(config.plan);
  keeps_replicas_ = config.keeps_replicas && config.plan.dims.replica_slots > 0;
  mega_ = mega_config_of(config);
  owner_of_ = owners_of(config.plan);
  const HeadConfig head_config = {.plan = config.plan,
                                  .topk = config.shape.topk,
                                  .max_tokens = config.max_tokens,
                                  .session_hash = config_hash(mega_)};
  int device = 0;
  MF_CUDA(cudaGetDevice(&device));
  Layout layout;
  head_fields_ = add_device_head_fields(
      layout, head_config, {.max_ctas = sms_of(device), .report_bytes = sizeof(DevicePlanReport)});
  fields_ = add_mega_fields(layout, mega_);
  planned_ = planned_of(head_fields_, config.plan.dims);
  group_ = make_group(layout);
  for (size_t i = 0; i < group_->num_devices(); ++i) {
    const auto count = static_cast<int32_t>(group_->ranks_on(i).size());
    MF_CHECK(count <= config.ranks_per_device, "ranks_per_device: ", config.ranks_per_device,
             ", device ", group_->device(i), " hosts ", count);
  }
  add_sides(head_config, config.num_layers);
  clear_slots();
}

void DeviceSession::add_sides(const HeadConfig& head, int32_t num_layers) {
  for (size_t i = 0; i < group_->num_devices(); ++i) {
    const CurrentDevice current(group_->device(i));
    Side side;
    side.first = num_local_;
    side.count = static_cast<int32_t>(group_->ranks_on(i).size());
    side.head = std::make_unique<DeviceHead>(head, head_fields_, group_->ranks_on(i));
    side.planner = std::make_unique<DevicePlanner>(head.plan, group_->device(i),
                                                   std::max<int64_t>(1, max_step_rows(head)));
    side.forward = std::make_unique<MegaForward>(
        mega_, fields_, MegaScope{.num_local = side.count, .num_layers = num_layers});
    if (mega_.replica_slots > 0) {
      std::vector<SlotPool> pools;
      for (int32_t k = 0; k < side.count; ++k) pools.push_back(side.forward->slots(k));
      side.distribute =
          std::make_unique<DistributeWeights>(DistributeConfig{.w1_cut = mega_.w1_cut(),
                                                               .w2_cut = mega_.w2_cut(),
                                                               .config_hash = config_hash(mega_),
                                                               .num_sms = mega_.num_sms},
                                              pools);
    }
    num_local_ += side.count;
    sides_.push_back(std::move(side));
  }
}

void DeviceSession::set_weights(int32_t layer, std::span<const MegaWeights> weights) {
  MF_CHECK(weights.size() == static_cast<size_t>(num_local_), "weights: of ", weights.size(),
           " ranks, this process hosts ", num_local_);
  const std::vector<int32_t> owned = owned_experts(owner_of_, mega_.num_ranks);
  const std::vector<int32_t> ranks = local_ranks();
  for (size_t i = 0; i < weights.size(); ++i) {
    MF_CHECK(weights[i].num_owned == owned[ranks[i]], "weights[", i, "]: num_owned ",
             weights[i].num_owned, ", rank ", ranks[i], " owns ", owned[ranks[i]], " experts");
  }
  std::vector<ExpertSource> sources;
  if (mega_.replica_slots > 0) sources = find_sources(weights);
  for (size_t i = 0; i < sides_.size(); ++i) {
    const CurrentDevice current(group_->device(i));
    sides_[i].forward->set_weights(layer, weights.subspan(sides_[i].first, sides_[i].count),
                                   sources);
  }
  clear_slots();  // some may hold the layer's weights of before
}

void DeviceSession::wait_for_devices() const {
  for (size_t i = 0; i < group_->num_devices(); ++i) {
    const CurrentDevice current(group_->device(i));
    MF_CUDA(cudaDeviceSynchronize());
  }
}

template <typename Fn>
void DeviceSession::each_rank(Fn&& fn) const {
  for (size_t i = 0; i < sides_.size(); ++i) {
    const CurrentDevice current(group_->device(i));
    for (int32_t k = 0; k < sides_[i].count; ++k) fn(sides_[i].first + k);
  }
}

void DeviceSession::clear_slots() {
  each_rank([&](int32_t i) {
    MF_CUDA(cudaMemset(at_base(base(i), fields_.slot_experts), 0xff,
                       fields_.slot_experts.count * sizeof(int32_t)));
  });
  wait_for_devices();
}

void DeviceSession::recover() {
  group_->recover();
  clear_slots();
}

std::vector<ExpertSource> DeviceSession::find_sources(std::span<const MegaWeights> weights) const {
  const LayerShape& shape = mega_.shape;
  const size_t w1_bytes = shape.w1_elements() * sizeof(Bf16);
  const size_t w2_bytes = shape.w2_elements() * sizeof(Bf16);
  const size_t b1_bytes = size_t{2} * shape.inter * sizeof(float);
  const size_t b2_bytes = static_cast<size_t>(shape.hidden) * sizeof(float);
  const auto map = [&](auto MegaWeights::*of, size_t expert_bytes) {
    std::vector<MemoryRange> ranges;
    for (const MegaWeights& of_rank : weights) {
      // Peers read what is mapped, and no more.
      void* const data = const_cast<void*>(static_cast<const void*>(of_rank.*of));
      ranges.push_back({data, data == nullptr ? 0 : of_rank.num_owned * expert_bytes});
    }
    return group_->map_ranges(ranges);
  };
  const auto w1 = map(&MegaWeights::w1, w1_bytes), w2 = map(&MegaWeights::w2, w2_bytes);
  std::vector<std::byte*> b1, b2;
  if (shape.has_bias) {
    b1 = map(&MegaWeights::b1, b1_bytes);
    b2 = map(&MegaWeights::b2, b2_bytes);
  }
  const std::vector<int32_t> local = local_index_of(owner_of_, mega_.num_ranks);
  std::vector<ExpertSource> sources;
  for (size_t e = 0; e < owner_of_.size(); ++e) {
    const auto place = [&](const std::vector<std::byte*>& bases, size_t expert_bytes) {
      std::byte* const base = bases.empty() ? nullptr : bases[owner_of_[e]];
      return base == nullptr ? nullptr : base + local[e] * expert_bytes;
    };
    sources.push_back({.w1 = place(w1, w1_bytes),
                       .w2 = place(w2, w2_bytes),
                       .b1 = reinterpret_cast<const float*>(place(b1, b1_bytes)),
                       .b2 = reinterpret_cast<const float*>(place(b2, b2_bytes))});
  }
  return sources;
}

const DeviceSession::Side& DeviceSession::side_of(int32_t local_idx) const {
  size_t i = 0;
  while (i + 1 < sides_.size() && sides_[i + 1].first <= local_idx) ++i;
  return sides_[i];
}

const SlotPool& DeviceSession::slots(int32_t local_idx) const {
  const Side& side = side_of(local_idx);
  return side.forward->slots(local_idx - side.first);
}

std::byte* DeviceSession::base(int32_t local_idx) const {
  const Side& side = side_of(local_idx);
  return group_->base(static_cast<size_t>(&side - sides_.data()),
                      static_cast<size_t>(local_idx - side.first));
}

Bf16* DeviceSession::tokens(int32_t local_idx) const {
  return mega_.num_ranks == 1 ? nullptr : at_base(base(local_idx), fields_.tokens);
}

void DeviceSession::check_count(std::span<const ForwardTensors> ranks) const {
  MF_CHECK(ranks.size() == static_cast<size_t>(num_local_), "ranks: tensors of ", ranks.size(),
           ", this process hosts ", num_local_);
}

template <typename Fn>
void DeviceSession::launch(Streams streams, Fn&& fn) {
  size_t device_idx = 0;
  group_->launch(
      [&](const DeviceContext& context, cudaStream_t stream) {
        fn(device_idx, context, stream);
        ++device_idx;
      },
      streams);
}

// Arguments of all devices are looked at before the first launch: one that another device's launch
// would wait for in vain poisons the group.
void DeviceSession::route(std::span<const ForwardTensors> ranks, const DeviceHeadStep& step,
                          Streams streams) {
  check_count(ranks);
  MF_CHECK(step.order == PartOrder::kOwnedFirst, "order: a forward takes kOwnedFirst");
  std::vector<DeviceHeadParams> params;
  for (size_t i = 0; i < sides_.size(); ++i) {
    const Side& side = sides_[i];
    std::vector<RoutingView> routings;
    for (int32_t k = 0; k < side.count; ++k) routings.push_back(ranks[side.first + k].routing);
    DeviceHeadStep here = step;
    if (keeps_replicas_) here.resident = at_base(group_->base(i, 0), fields_.slot_experts);
    params.push_back(side.head->params(routings, here));
  }
  launch(streams, [&](size_t device_idx, const DeviceContext& context, cudaStream_t stream) {
    const Side& side = sides_[device_idx];
    if (keeps_replicas_) claim_slots(context, fields_, key_of(step), stream);
    launch_head(context, *side.head, params[device_idx], *side.planner, stream);
  });
  routed_for_ = key_of(step);
}

// Where peers read them, unless they lie there.
void DeviceSession::share_tokens(const Side& side, std::span<const ForwardTensors> ranks,
                                 cudaStream_t stream) {
  if (mega_.num_ranks == 1) return;
  for (int32_t i = side.first; i < side.first + side.count; ++i) {
    const auto rows = static_cast<size_t>(std::max(ranks[i].routing.num_tokens, 0));
    if (rows == 0 || ranks[i].x == tokens(i)) continue;
    MF_CUDA(cudaMemcpyAsync(tokens(i), ranks[i].x, rows * mega_.shape.hidden * sizeof(Bf16),
                            cudaMemcpyDeviceToDevice, stream));
  }
}

void DeviceSession::check_routed(const DeviceHeadStep& step) const {
  MF_CHECK(!keeps_replicas_ || key_of(step) == routed_for_, "step: layer ", step.layer,
           ", weight version ", step.weight_version, "; the last route was about layer ",
           routed_for_.layer, ", version ", routed_for_.weight_version);
}

void DeviceSession::distribute(const DeviceHeadStep& step, Streams streams) {
  check_routed(step);
  if (mega_.replica_slots == 0) return;
  launch(streams, [&](size_t device_idx, const DeviceContext& context, cudaStream_t stream) {
    const Side& side = sides_[device_idx];
    // What is kept of before is overwritten; the compute that finds its slots filled notes them.
    if (keeps_replicas_) {
      claim_slots(context, fields_, kNobodys, stream);
      claim_slots(context, fields_, key_of(step), stream);
    }
    side.distribute->launch(context,
                            {.planned = planned_,
                             .sources = side.forward->sources(step.layer, fault_),
                             .layer = step.layer},
                            stream);
  });
}

void DeviceSession::compute(std::span<const ForwardTensors> ranks, const DeviceHeadStep& step,
                            Streams streams) {
  check_count(ranks);
  check_routed(step);
  // A slot that nobody fills keeps what it held before.
  const ReplicaTransfer transfer =
      fault_ == Fault::kStaleSlot ? ReplicaTransfer::kInPlace : transfer_;
  std::vector<ForwardParams> params;
  for (size_t i = 0; i < sides_.size(); ++i) {
    const Side& side = sides_[i];
    const ForwardInputs inputs = {
        .ranks = ranks.subspan(side.first, side.count),
        .planned = planned_,
        .layer = step.layer,
        .slots = transfer == ReplicaTransfer::kPipelined ? SlotFill::kPulled : SlotFill::kInPlace,
        .stages = stages_,
        .fault = fault_,
        .trace = traces_.empty() ? TraceBuffer{} : traces_[i]};
    params.push_back(side.forward->params(group_->context(i), inputs));
  }
  if (transfer == ReplicaTransfer::kStaged) distribute(step, streams);
  launch(streams, [&](size_t device_idx, const DeviceContext& context, cudaStream_t stream) {
    share_tokens(sides_[device_idx], ranks, stream);
    sides_[device_idx].forward->launch(context, params[device_idx], stream);
    // What a fault has left in slots is nobody's.
    if (keeps_replicas_ && fault_ != Fault::kNone) claim_slots(context, fields_, kNobodys, stream);
  });
}

void DeviceSession::forward(std::span<const ForwardTensors> ranks, const DeviceHeadStep& step,
                            Streams streams) {
  route(ranks, step, streams);
  compute(ranks, step, streams);
}

std::vector<int32_t> DeviceSession::local_ranks() const {
  std::vector<int32_t> ranks;
  for (size_t i = 0; i < group_->num_devices(); ++i) {
    ranks.insert(ranks.end(), group_->ranks_on(i).begin(), group_->ranks_on(i).end());
  }
  return ranks;
}

std::vector<int32_t> DeviceSession::residents() const {
  if (!keeps_replicas_) return {};
  std::vector<int32_t> experts(fields_.slot_experts.count);
  MF_CUDA(cudaMemcpy(experts.data(), at_base(base(0), fields_.slot_experts),
                     experts.size() * sizeof(int32_t), cudaMemcpyDefault));
  return experts;
}

void DeviceSession::put_plan(const Plan& from, const LoadTable& loads) {
  MF_CHECK(from.bytes().size() == head_fields_.plan.count, "plan: ", from.bytes().size(),
           " bytes, one of this session has ", head_fields_.plan.count);
  const int64_t most_rows = int64_t{mega_.num_ranks} * mega_.max_tokens * int64_t{mega_.shape.topk};
  MF_CHECK(loads.total_rows() <= most_rows, "loads: ", loads.total_rows(), " rows, ", most_rows,
           " are the most of this session");
  group_->synchronize();
  wait_for_devices();  // streams of the caller
  const Plan plan = adopt_plan(from.bytes(), loads, sides_[0].head->config().plan, residents());
  const std::vector<int32_t> ranks = local_ranks();
  const std::vector<int32_t> owned = owned_experts(plan.owner_of(), plan.dims().num_ranks);
  each_rank([&](int32_t i) {
    const auto write = [to = base(i)](const auto& field, std::span<const std::byte> bytes) {
      MF_CUDA(cudaMemcpy(at_base(to, field), bytes.data(), bytes.size(), cudaMemcpyDefault));
    };
    WorkList list;
    list.assign(plan, loads, ranks[i], PartOrder::kOwnedFirst);
    const WorkListHeader header = {.rank = ranks[i],
                                   .num_parts = static_cast<int32_t>(list.parts().size()),
                                   .num_tiles = list.num_tiles(),
                                   .num_owned = owned[ranks[i]],
                                   .num_rows = list.num_rows()};
    write(head_fields_.work, std::as_bytes(std::span(&header, 1)));
    write(head_fields_.parts, std::as_bytes(list.parts()));
    write(head_fields_.plan, plan.bytes());
  });
  // From pageable memory copies may still be on their way, and other streams do not wait for them.
  wait_for_devices();
}

void DeviceSession::check() {
  group_->check_sound();
  for (const Side& side : sides_) side.head->check();
}

void DeviceSession::set_traces(std::vector<TraceBuffer> traces) {
  MF_CHECK(traces.empty() || traces.size() == sides_.size(), "traces: ", traces.size(),
           " buffers, the group has ", sides_.size(), " devices in this process");
  traces_ = std::move(traces);
}

DeviceStep DeviceSession::read_step(int32_t local_idx) const {
  std::byte* const from = base(local_idx);
  DeviceStep step;
  step.plan.resize(head_fields_.plan.count);
  wait_for_devices();
  const auto read = [&](void* to, const void* place, size_t bytes) {
    MF_CUDA(cudaMemcpy(to, place, bytes, cudaMemcpyDefault));
  };
  read(step.plan.data(), at_base(from, head_fields_.plan), step.plan.size());
  read(&step.head, at_base(from, head_fields_.result), sizeof(step.head));
  read(&step.work, at_base(from, head_fields_.work), sizeof(step.work));
  return step;
}

}  // namespace megaflux
