#include "megaflux/session/session_config.h"

#include <algorithm>
#include <bit>

#include "megaflux/base/check.h"
#include "megaflux/base/hash.h"
#include "megaflux/moe/owner_table.h"

namespace megaflux {
namespace {

// Hash of what ranks must agree on besides the plan's configuration.
uint64_t executor_hash(const CpuLayerConfig& layer) {
  const LayerShape& shape = layer.shape;
  Hasher hasher;
  hasher.add(static_cast<uint32_t>(shape.hidden));
  hasher.add(static_cast<uint32_t>(shape.inter));
  hasher.add(static_cast<uint32_t>(shape.dtype));
  hasher.add(static_cast<uint32_t>(shape.gate_order));
  hasher.add(static_cast<uint32_t>(shape.activation.kind));
  hasher.add(std::bit_cast<uint32_t>(shape.activation.limit));
  hasher.add(std::bit_cast<uint32_t>(shape.activation.alpha));
  hasher.add(shape.has_bias ? 1 : 0);
  hasher.add64(static_cast<uint64_t>(layer.pool_rows));
  hasher.add(static_cast<uint32_t>(layer.gemm));
  return hasher.value();
}

}  // namespace

SessionConfig complete_config(SessionConfig config) {
  check_shape(config.shape);
  MF_CHECK(config.num_layers >= 0, "num_layers: ", config.num_layers, " is negative");
  MF_CHECK(config.max_contexts >= 1, "max_contexts: ", config.max_contexts, " must be at least 1");
  PlanDims& dims = config.plan.dims;
  if (dims.num_experts == 0) dims.num_experts = config.shape.num_experts;
  MF_CHECK(dims.num_experts == config.shape.num_experts,
           "plan.dims.num_experts: ", dims.num_experts, ", the shape has ",
           config.shape.num_experts);
  if (config.plan.owner_of.empty()) {
    check_dims(dims);
    config.plan.owner_of = contiguous_owners(dims.num_experts, dims.num_ranks);
  }
  check_config(config.plan);
  const CpuLayerConfig layer = layer_config_of(config);
  config.pool_rows = layer.pool_rows;
  if (config.z_rows < 0) config.z_rows = layer.pool_rows;
  config.z_rows -= config.z_rows % kTileRows;
  return config;
}

CpuLayerConfig layer_config_of(const SessionConfig& config) {
  return resolve_config({.shape = config.shape,
                         .num_ranks = config.plan.dims.num_ranks,
                         .replica_slots = config.plan.dims.replica_slots,
                         .max_tokens = config.max_tokens,
                         .pool_rows = config.pool_rows,
                         .fc2_lag_tiles = config.fc2_lag_tiles,
                         .owner_of = config.plan.owner_of,
                         .gemm = config.gemm,
                         .packing = config.packing,
                         .is_memory_poisoned = config.is_memory_poisoned});
}

HeadConfig head_config_of(const SessionConfig& config, const CpuLayerConfig& layer) {
  return {.plan = config.plan,
          .topk = config.shape.topk,
          .max_tokens = config.max_tokens,
          .session_hash = executor_hash(layer)};
}

RankTokens tokens_of(const ForwardState& state, const LayerShape& shape, int32_t rank) {
  const int32_t num_tokens = state.ranks[rank].num_tokens;
  return {.num_tokens = num_tokens,
          .max_tokens = num_tokens,
          .rank = rank,
          .row_bytes = shape.hidden * dtype_bytes(shape.dtype)};
}

void check_tensors(const RankTokens& tokens, std::initializer_list<NamedTensor> tensors) {
  MF_CHECK(tokens.num_tokens >= 0 && tokens.num_tokens <= tokens.max_tokens, "rank ", tokens.rank,
           ": ", tokens.num_tokens, " tokens, the session was made for at most ",
           tokens.max_tokens);
  if (tokens.num_tokens == 0) return;
  for (const NamedTensor& tensor : tensors) {
    MF_CHECK(tensor.data != nullptr, tensor.name, " of rank ", tokens.rank, ": null for ",
             tokens.num_tokens, " tokens");
  }
}

void check_not_in_place(const RankTokens& writer, const NamedTensor& output,
                        const RankTokens& reader, std::initializer_list<NamedTensor> inputs) {
  if (writer.num_tokens == 0 || reader.num_tokens == 0) return;
  const auto written = reinterpret_cast<uintptr_t>(output.data);
  const auto bytes = static_cast<uintptr_t>(writer.num_tokens * writer.row_bytes);
  for (const NamedTensor& input : inputs) {
    const auto read = reinterpret_cast<uintptr_t>(input.data);
    const auto read_bytes = static_cast<uintptr_t>(reader.num_tokens * reader.row_bytes);
    const bool is_apart = written < read ? read - written >= bytes : written - read >= read_bytes;
    MF_CHECK(is_apart, output.name, " of rank ", writer.rank, ": ", bytes, " bytes that overlap ",
             input.name, " of rank ", reader.rank, ", which other ranks read while it is written");
  }
}

void check_same_version(const ForwardState& state, uint64_t version) {
  MF_CHECK(state.weight_version == version, "forward context of layer ", state.layer,
           ": made with weight version ", state.weight_version, ", the layer is at ", version);
}

void check_backward_call(const ForwardState& state, const BackwardCall& call,
                         const CpuLayerConfig& layer) {
  const size_t ranks = state.ranks.size();
  MF_CHECK(call.dy.size() == ranks && call.dx.size() == ranks && call.dp.size() == ranks &&
               call.gradients.size() == ranks,
           "backward: dy, dx, dp and gradients of ", call.dy.size(), ", ", call.dx.size(), ", ",
           call.dp.size(), " and ", call.gradients.size(), " ranks, the session has ", ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    const RankTokens tokens = tokens_of(state, layer.shape, static_cast<int32_t>(rank));
    check_tensors(tokens, {{"dy", call.dy[rank]}, {"dx", call.dx[rank]}, {"dp", call.dp[rank]}});
    for (size_t other = 0; other < ranks; ++other) {
      check_not_in_place(tokens, {"dx", call.dx[rank]},
                         tokens_of(state, layer.shape, static_cast<int32_t>(other)),
                         {{"dy", call.dy[other]}, {"x", state.ranks[other].x}});
    }
    if (std::count(layer.owner_of.begin(), layer.owner_of.end(), static_cast<int32_t>(rank)) == 0) {
      continue;
    }
    const GradientOutput& gradient = call.gradients[rank];
    MF_CHECK(gradient.w1 != nullptr && gradient.w2 != nullptr, "gradients of rank ", rank,
             ": w1 or w2 is null");
    MF_CHECK(!layer.shape.has_bias || (gradient.b1 != nullptr && gradient.b2 != nullptr),
             "gradients of rank ", rank, ": b1 or b2 is null");
    MF_CHECK(gradient.mode == call.gradients[0].mode, "gradients of rank ", rank,
             ": another mode than rank 0");
  }
}

}  // namespace megaflux
