#include "megaflux/layer/mega/forward_cuda.h"

#include "megaflux/base/hash.h"
#include "megaflux/comm/launch_cuda.h"
#include "megaflux/layer/mega/forward_kernel.cuh"

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
  return params;
}

void check_weights(const MegaConfig& config, const MegaWeights& weights) {
  MF_CHECK(weights.w1 != nullptr && weights.w2 != nullptr, "weights: w1 or w2 is missing");
  for (const void* bias :
       {static_cast<const void*>(weights.b1), static_cast<const void*>(weights.b2)}) {
    MF_CHECK((bias != nullptr) == config.shape.has_bias, "weights: the shape has ",
             config.shape.has_bias ? "biases, and one is missing" : "no biases, and one is given");
  }
}

void check_inputs(const MegaConfig& config, const ForwardInputs& inputs) {
  const RoutingView& routing = inputs.routing;
  MF_CHECK(routing.num_tokens >= 0 && routing.num_tokens <= config.max_tokens,
           "num_tokens: ", routing.num_tokens, " is outside [0, ", config.max_tokens, "]");
  MF_CHECK(routing.topk == config.shape.topk, "topk: ", routing.topk, ", the layer has ",
           config.shape.topk);
  const bool has_tokens = inputs.x != nullptr && inputs.y != nullptr &&
                          routing.topk_ids != nullptr && routing.topk_weights != nullptr;
  MF_CHECK(routing.num_tokens == 0 || has_tokens,
           "x, y, topk_ids or topk_weights is missing, and there are ", routing.num_tokens,
           " tokens");
  MF_CHECK(inputs.work.header != nullptr && inputs.work.parts != nullptr,
           "work: the list is missing");
  const RowMapView& rows = inputs.rows;
  MF_CHECK(rows.source_begin != nullptr && rows.route_offsets != nullptr, "rows: a map is missing");
  MF_CHECK(rows.num_ranks == config.num_ranks && rows.num_experts == config.shape.num_experts,
           "rows: maps of ", rows.num_ranks, " ranks and ", rows.num_experts,
           " experts, the layer has ", config.num_ranks, " and ", config.shape.num_experts);
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
                         const MegaWeights& weights)
    : config_(config), params_(params_of(config, fields)) {
  check_weights(config, weights);
  Layout layout;
  params_.space = add_workspace_fields(layout, config);
  space_ = DeviceMemory(current_device(), layout.total_bytes());
  std::byte* const base = space_.data();
  const MegaMaps maps =
      make_maps(config, {.x = reinterpret_cast<std::byte*>(at_base(base, params_.space.x)),
                         .a = reinterpret_cast<std::byte*>(at_base(base, params_.space.a)),
                         .w1 = static_cast<const std::byte*>(weights.w1),
                         .w2 = static_cast<const std::byte*>(weights.w2)});
  maps_ = DeviceMemory::copy_of(current_device(), std::as_bytes(std::span(&maps, 1)));
  MegaRank& rank = params_.ranks[0];
  rank.space = base;
  rank.maps = reinterpret_cast<const MegaMaps*>(maps_.data());
  rank.b1 = weights.b1;
  rank.b2 = weights.b2;
}

void MegaForward::launch(const DeviceContext& context, const ForwardInputs& inputs,
                         cudaStream_t stream) const {
  MF_CHECK(context.num_local == kMaxMegaRanks, "group: ", context.num_local,
           " ranks on the device, needed is ", kMaxMegaRanks);
  MF_CHECK(context.heap.num_ranks() == config_.num_ranks, "group: ", context.heap.num_ranks(),
           " ranks, the layer has ", config_.num_ranks);
  check_inputs(config_, inputs);
  ForwardParams params = params_;
  params.routes = inputs.routes;
  params.stages = inputs.stages;
  params.trace = inputs.trace;
  params.words = {.op = LaunchOp::kForward, .layer = inputs.layer, .plan_hash = inputs.plan_hash};
  MegaRank& rank = params.ranks[0];
  rank.x = static_cast<const Bf16*>(inputs.x);
  rank.y = static_cast<Bf16*>(inputs.y);
  rank.routing = inputs.routing;
  rank.work = inputs.work;
  rank.rows = inputs.rows;
  launch_ranks(mega::forward_kernel,
               {.ctas_per_rank = config_.num_sms,
                .num_threads = mega::kNumThreads,
                .shared_bytes = mega::kSharedBytes},
               stream, context, params);
}

}  // namespace megaflux
