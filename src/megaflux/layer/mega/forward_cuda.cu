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
  MF_CHECK(
      weights.num_weights >= config.replica_slots && weights.num_weights <= config.most_weights(),
      "num_weights: ", weights.num_weights, " is outside [", config.replica_slots, ", ",
      config.most_weights(), "], slots and the most experts of a rank");
  if (weights.num_weights == 0) return;
  MF_CHECK(weights.w1 != nullptr && weights.w2 != nullptr, "weights: w1 or w2 is missing");
  for (const void* bias :
       {static_cast<const void*>(weights.b1), static_cast<const void*>(weights.b2)}) {
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

MegaForward::MegaForward(const MegaConfig& config, const MegaFields& fields,
                         std::span<const MegaWeights> weights,
                         std::span<const ExpertSource> sources)
    : config_(config),
      num_local_(static_cast<int32_t>(weights.size())),
      params_(params_of(config, fields)) {
  MF_CHECK(num_local_ >= 1 && num_local_ <= kMaxLocalRanks, "weights: of ", num_local_,
           " ranks, outside [1, ", kMaxLocalRanks, "]");
  for (const MegaWeights& of_rank : weights) check_weights(config, of_rank);
  check_sources(config, sources);
  Layout layout;
  params_.space = add_workspace_fields(layout, config);
  const size_t rank_bytes = layout.total_bytes();
  space_ = DeviceMemory(current_device(), rank_bytes * weights.size());
  std::vector<MegaMaps> maps;
  for (size_t i = 0; i < weights.size(); ++i) {
    MegaRank& rank = params_.ranks[i];
    rank.space = space_.data() + i * rank_bytes;
    rank.weights = {.w1 = static_cast<std::byte*>(weights[i].w1),
                    .w2 = static_cast<std::byte*>(weights[i].w2),
                    .b1 = weights[i].b1,
                    .b2 = weights[i].b2};
    maps.push_back(
        make_maps(config, {.x = reinterpret_cast<std::byte*>(at_base(rank.space, params_.space.x)),
                           .a = reinterpret_cast<std::byte*>(at_base(rank.space, params_.space.a)),
                           .w1 = rank.weights.w1,
                           .w2 = rank.weights.w2,
                           .num_weights = weights[i].num_weights}));
  }
  maps_ = DeviceMemory::copy_of(current_device(), std::as_bytes(std::span(maps)));
  for (size_t i = 0; i < maps.size(); ++i) {
    params_.ranks[i].maps = reinterpret_cast<const MegaMaps*>(maps_.data()) + i;
  }
  if (sources.empty()) return;
  sources_ = DeviceMemory::copy_of(current_device(), std::as_bytes(sources));
  params_.sources = reinterpret_cast<const ExpertSource*>(sources_.data());
}

void MegaForward::check(const DeviceContext& context, const ForwardInputs& inputs) const {
  MF_CHECK(context.num_local == num_local_, "group: ", context.num_local,
           " ranks on the device, weights were given for ", num_local_);
  check_launch(config_, sources_.bytes() > 0, context, inputs);
}

void MegaForward::launch(const DeviceContext& context, const ForwardInputs& inputs,
                         cudaStream_t stream) const {
  check(context, inputs);
  ForwardParams params = params_;
  params.planned = inputs.planned;
  params.stages = inputs.stages;
  params.slots = inputs.slots;
  params.trace = inputs.trace;
  params.layer = inputs.layer;
  for (size_t i = 0; i < inputs.ranks.size(); ++i) {
    MegaRank& rank = params.ranks[i];
    rank.x = static_cast<const Bf16*>(inputs.ranks[i].x);
    rank.y = static_cast<Bf16*>(inputs.ranks[i].y);
    rank.routing = inputs.ranks[i].routing;
  }
  launch_ranks(mega::forward_kernel,
               {.ctas_per_rank = config_.num_sms,
                .num_threads = mega::kNumThreads,
                .shared_bytes = mega::kSharedBytes},
               stream, context, params);
}

}  // namespace megaflux
