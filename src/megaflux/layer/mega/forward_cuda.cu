#include "megaflux/layer/mega/forward_cuda.h"

#include <vector>

#include "megaflux/comm/launch_cuda.h"
#include "megaflux/layer/mega/forward_kernel.cuh"
#include "megaflux/moe/plan.h"

namespace megaflux {
namespace {

int32_t current_device() {
  int device = 0;
  MF_CUDA(cudaGetDevice(&device));
  return device;
}

ForwardParams params_of(const MegaConfig& config, const MegaFields& fields) {
  ForwardParams params;
  params.fields = fields;
  params.config_hash = config_hash(config);
  params.activation = config.shape.activation;
  params.is_gate_first = config.shape.gate_order == GateOrder::kGateUp;
  params.has_bias = config.shape.has_bias;
  params.num_experts = config.shape.num_experts;
  params.hidden = config.shape.hidden;
  params.inter = config.shape.inter;
  params.fc1_columns = config.fc1_columns();
  params.fc2_columns = config.fc2_columns();
  params.unit_tiles = config.unit_tiles();
  params.pool_tiles = config.pool_tiles();
  params.lag_waves = config.lag_waves;
  params.cuts[0] = config.w1_cut();
  params.cuts[1] = config.w2_cut();
  return params;
}

bool is_aligned(const void* place) {
  return reinterpret_cast<uintptr_t>(place) % 16 == 0;
}

void check_weights(const MegaConfig& config, const MegaWeights& weights) {
  MF_CHECK(weights.num_owned >= 0 && weights.num_owned <= config.most_owned,
           "num_owned: ", weights.num_owned, " is outside [0, ", config.most_owned, "]");
  if (weights.num_owned == 0) return;
  MF_CHECK(weights.w1 != nullptr && weights.w2 != nullptr, "weights: w1 or w2 is missing");
  for (const float* bias : {weights.b1, weights.b2}) {
    MF_CHECK((bias != nullptr) == config.shape.has_bias, "weights: the shape has ",
             config.shape.has_bias ? "biases, and one is missing" : "no biases, and one is given");
    MF_CHECK(is_aligned(bias), "weights: biases do not begin at a multiple of 16 bytes");
  }
}

void check_sources(const MegaConfig& config, std::span<const ExpertSource> sources) {
  MF_CHECK(sources.empty() || sources.size() == static_cast<size_t>(config.shape.num_experts),
           "sources: ", sources.size(), " experts, the layer has ", config.shape.num_experts);
  for (size_t e = 0; e < sources.size(); ++e) {
    const ExpertSource& source = sources[e];
    const bool has_biases = source.b1 != nullptr && source.b2 != nullptr;
    MF_CHECK(source.w1 != nullptr && source.w2 != nullptr && (has_biases || !config.shape.has_bias),
             "sources[", e, "]: w1, w2 or a bias is missing");
    for (const void* place :
         {static_cast<const void*>(source.w1), static_cast<const void*>(source.w2),
          static_cast<const void*>(source.b1), static_cast<const void*>(source.b2)}) {
      MF_CHECK(is_aligned(place), "sources[", e, "]: does not begin at a multiple of 16 bytes");
    }
  }
}

void check_tensors(const MegaConfig& config, const ForwardTensors& tensors) {
  const RoutingView& routing = tensors.routing;
  MF_CHECK(routing.num_tokens >= 0 && routing.num_tokens <= config.max_tokens,
           "num_tokens: ", routing.num_tokens, " is outside [0, ", config.max_tokens, "]");
  MF_CHECK(routing.topk == config.shape.topk, "topk: ", routing.topk, ", the layer has ",
           config.shape.topk);
  const bool has_tokens = tensors.x != nullptr && tensors.y != nullptr &&
                          routing.topk_ids != nullptr && routing.topk_weights != nullptr;
  MF_CHECK(routing.num_tokens == 0 || has_tokens,
           "x, y, topk_ids or topk_weights is missing, and there are ", routing.num_tokens,
           " tokens");
  MF_CHECK(is_aligned(tensors.x) && is_aligned(tensors.y),
           "x or y does not begin at a multiple of 16 bytes");
}

void check_launch(const MegaConfig& config, bool has_sources, const DeviceContext& context,
                  const ForwardInputs& inputs) {
  MF_CHECK(context.heap.num_ranks() == config.num_ranks, "group: ", context.heap.num_ranks(),
           " ranks, the layer has ", config.num_ranks);
  MF_CHECK(inputs.ranks.size() == static_cast<size_t>(context.num_local), "ranks: tensors of ",
           inputs.ranks.size(), ", the device has ", context.num_local);
  for (const ForwardTensors& tensors : inputs.ranks) check_tensors(config, tensors);
  const PlannedFields& planned = inputs.planned;
  const auto num_experts = static_cast<size_t>(config.shape.num_experts);
  const auto num_ranks = static_cast<size_t>(config.num_ranks);
  MF_CHECK(planned.plan.count >= sizeof(PlanHeader) && planned.work.count == 1 &&
               planned.parts.count >= num_experts && planned.replica_slots == config.replica_slots,
           "planned: plan, work or parts are missing, or of another number of slots");
  MF_CHECK(planned.source_begin.count == (num_ranks + 1) * num_experts &&
               planned.route_offsets.count == num_ranks * (num_experts + 1),
           "planned: row maps are not those of ", config.num_ranks, " ranks and ",
           config.shape.num_experts, " experts");
  MF_CHECK(inputs.slots == SlotFill::kInPlace || config.replica_slots == 0 || has_sources,
           "slots: to be filled from the owners' weights, and no sources were given");
  MF_CHECK(inputs.fault != Fault::kSkipReplicaGradient,
           "fault: kSkipReplicaGradient is one of a backward, this is a forward");
  MF_CHECK(inputs.stages == ForwardStages::kWhole || config.max_tiles() <= config.pool_tiles(),
           "stages: the GEMMs alone need a pool of ", config.max_tiles(), " tiles, there are ",
           config.pool_tiles());
}

}  // namespace

int32_t sms_of(int32_t device) {
  int count = 0;
  MF_CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

MegaForward::MegaForward(const MegaConfig& config, const MegaFields& fields, const MegaScope& scope)
    : config_(config), num_local_(scope.num_local), params_(params_of(config, fields)) {
  MF_CHECK(num_local_ >= 1 && num_local_ <= kMaxLocalRanks, "num_local: ", num_local_,
           " is outside [1, ", kMaxLocalRanks, "]");
  MF_CHECK(scope.num_layers >= 1, "num_layers: ", scope.num_layers, " is below 1");
  layers_.resize(static_cast<size_t>(scope.num_layers));
  Layout layout;
  params_.space = add_workspace_fields(layout, config);
  const size_t rank_bytes = layout.total_bytes();
  space_ = DeviceMemory(current_device(), rank_bytes * static_cast<size_t>(num_local_));
  const WorkspaceFields& space = params_.space;
  for (int32_t i = 0; i < num_local_; ++i) {
    MegaRank& rank = params_.ranks[i];
    rank.space = space_.data() + static_cast<size_t>(i) * rank_bytes;
    rank.slots = {.w1 = reinterpret_cast<std::byte*>(at_base(rank.space, space.slot_w1)),
                  .w2 = reinterpret_cast<std::byte*>(at_base(rank.space, space.slot_w2))};
    if (!config.shape.has_bias) continue;
    rank.slots.b1 = at_base(rank.space, space.slot_b1);
    rank.slots.b2 = at_base(rank.space, space.slot_b2);
  }
}

void MegaForward::check_layer(int32_t layer) const {
  MF_CHECK(layer >= 0 && static_cast<size_t>(layer) < layers_.size(), "layer: ", layer,
           " is outside [0, ", layers_.size(), ")");
}

void MegaForward::set_weights(int32_t layer, std::span<const MegaWeights> weights,
                              std::span<const ExpertSource> sources) {
  check_layer(layer);
  MF_CHECK(weights.size() == static_cast<size_t>(num_local_), "weights: of ", weights.size(),
           " ranks, the device has ", num_local_);
  for (const MegaWeights& of_rank : weights) check_weights(config_, of_rank);
  check_sources(config_, sources);
  std::vector<MegaMaps> maps;
  for (int32_t i = 0; i < num_local_; ++i) {
    const MegaRank& rank = params_.ranks[i];
    maps.push_back(make_maps(config_, {.x = at_base(rank.space, params_.space.x),
                                       .a = at_base(rank.space, params_.space.a),
                                       .w1 = weights[i].w1,
                                       .w2 = weights[i].w2,
                                       .num_owned = weights[i].num_owned,
                                       .slot_w1 = rank.slots.w1,
                                       .slot_w2 = rank.slots.w2}));
  }
  Layer set;
  set.weights.assign(weights.begin(), weights.end());
  set.maps = DeviceMemory::copy_of(current_device(), std::as_bytes(std::span(maps)));
  if (!sources.empty()) {
    std::vector<ExpertSource> round(sources.begin(), sources.end());
    round.push_back(sources.front());
    set.sources = DeviceMemory::copy_of(current_device(), std::as_bytes(std::span(round)));
  }
  layers_[layer] = std::move(set);
}

const ExpertSource* MegaForward::sources(int32_t layer, Fault fault) const {
  check_layer(layer);
  const DeviceMemory& memory = layers_[layer].sources;
  if (memory.bytes() == 0) return nullptr;
  const auto* const sources = reinterpret_cast<const ExpertSource*>(memory.data());
  return fault == Fault::kWrongOwner ? sources + 1 : sources;
}

void MegaForward::check(const DeviceContext& context, const ForwardInputs& inputs) const {
  check_layer(inputs.layer);
  const Layer& layer = layers_[inputs.layer];
  MF_CHECK(!layer.weights.empty(), "layer: ", inputs.layer, " has no weights");
  MF_CHECK(context.num_local == num_local_, "group: ", context.num_local,
           " ranks on the device, the forward was made for ", num_local_);
  check_launch(config_, layer.sources.bytes() > 0, context, inputs);
}

ForwardParams MegaForward::params(const DeviceContext& context, const ForwardInputs& inputs) const {
  check(context, inputs);
  const Layer& layer = layers_[inputs.layer];
  ForwardParams params = params_;
  params.planned = inputs.planned;
  params.stages = inputs.stages;
  params.slots = inputs.slots;
  params.trace = inputs.trace;
  params.layer = inputs.layer;
  params.fault = inputs.fault;
  params.sources = sources(inputs.layer, inputs.fault);
  for (size_t i = 0; i < inputs.ranks.size(); ++i) {
    MegaRank& rank = params.ranks[i];
    rank.maps = reinterpret_cast<const MegaMaps*>(layer.maps.data()) + i;
    rank.num_owned = layer.weights[i].num_owned;
    rank.b1 = layer.weights[i].b1;
    rank.b2 = layer.weights[i].b2;
    rank.x = static_cast<const Bf16*>(inputs.ranks[i].x);
    rank.y = static_cast<Bf16*>(inputs.ranks[i].y);
    rank.routing = inputs.ranks[i].routing;
  }
  return params;
}

void MegaForward::launch(const DeviceContext& context, const ForwardParams& params,
                         cudaStream_t stream) const {
  launch_ranks(mega::forward_kernel,
               {.ctas_per_rank = config_.num_sms,
                .num_threads = mega::kNumThreads,
                .shared_bytes = mega::kSharedBytes},
               stream, context, params);
}

}  // namespace megaflux
