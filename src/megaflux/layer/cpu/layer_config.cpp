#include "megaflux/layer/cpu/layer_config.h"

#include <algorithm>
#include <string>

#include "megaflux/base/check.h"
#include "megaflux/base/math.h"
#include "megaflux/layer/cpu/weights.h"
#include "megaflux/layer/cpu/workspace.h"
#include "megaflux/moe/limits.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/moe/work_list.h"

namespace megaflux {
namespace {

int64_t most_owned(const CpuLayerConfig& config) {
  const auto owned = owned_experts(config.owner_of, config.num_ranks);
  return *std::max_element(owned.begin(), owned.end());
}

}  // namespace

int64_t default_pool_rows(const CpuLayerConfig& config) {
  const int64_t rows = ceil_div(int64_t{5} * config.max_tokens * config.shape.topk, int64_t{4});
  const int64_t padding = kTileRows * (most_owned(config) + config.replica_slots);
  return round_up(rows + padding, int64_t{kTileRows});
}

CpuLayerConfig resolve_config(CpuLayerConfig config) {
  check_shape(config.shape);
  MF_CHECK(config.num_ranks >= 1 && config.num_ranks <= kMaxRanks, "num_ranks: ", config.num_ranks,
           " is outside [1, ", kMaxRanks, "]");
  MF_CHECK(config.replica_slots >= 0 && config.replica_slots <= kMaxReplicaSlots,
           "replica_slots: ", config.replica_slots, " is outside [0, ", kMaxReplicaSlots, "]");
  const int64_t max_pairs = int64_t{config.max_tokens} * config.shape.topk;
  MF_CHECK(config.max_tokens >= 0 && max_pairs < (int64_t{1} << 31),
           "max_tokens: ", config.max_tokens, " x topk ", config.shape.topk,
           " is outside [0, 2^31)");
  if (config.owner_of.empty()) {
    config.owner_of = contiguous_owners(config.shape.num_experts, config.num_ranks);
  }
  MF_CHECK(config.owner_of.size() == static_cast<size_t>(config.shape.num_experts),
           "owner_of: ", config.owner_of.size(), " entries for ", config.shape.num_experts,
           " experts");
  for (size_t e = 0; e < config.owner_of.size(); ++e) {
    MF_CHECK(config.owner_of[e] >= 0 && config.owner_of[e] < config.num_ranks, "owner_of[", e,
             "]: ", config.owner_of[e], " is outside [0, ", config.num_ranks, ")");
  }
  if (config.pool_rows == 0) config.pool_rows = default_pool_rows(config);
  config.pool_rows -= config.pool_rows % kTileRows;
  MF_CHECK(config.fc2_lag_tiles >= 0, "fc2_lag_tiles: ", config.fc2_lag_tiles, " is negative");
  MF_CHECK(config.pool_rows / kTileRows > config.fc2_lag_tiles, "pool_rows: ", config.pool_rows,
           " rows are ", config.pool_rows / kTileRows, " tiles, which must exceed fc2_lag_tiles ",
           config.fc2_lag_tiles);
  MF_CHECK(config.pool_rows / kTileRows < (int64_t{1} << 24), "pool_rows: ", config.pool_rows,
           " is at or above 2^31");
  if (config.gemm == GemmBackend::kAuto) config.gemm = choose_gemm_backend(config.shape.dtype);
  MF_CHECK(is_available(config.gemm), "gemm: ", gemm_backend_name(config.gemm),
           " is not available in this build or on this CPU");
  MF_CHECK(config.gemm != GemmBackend::kOneDnnBf16 || config.shape.dtype == DType::kBf16,
           "gemm: ", gemm_backend_name(config.gemm), " needs dtype bf16, the layer has ",
           dtype_name(config.shape.dtype));
  if (config.gemm_rows == 0) {
    config.gemm_rows = row_independent_rows(config.gemm, tile_gemm_shapes(config));
  }
  MF_CHECK(config.gemm_rows >= kTileRows, "gemm: ", gemm_backend_name(config.gemm),
           " gives equal rows unequal bits at any number of rows tried; use plain loops");
  return config;
}

int32_t num_accumulators(const CpuLayerConfig& config, int32_t num_owned, GradientMode mode) {
  if (mode == GradientMode::kNewFp32) return 0;
  return 1 + std::min(num_owned, config.num_ranks * config.replica_slots);
}

LayerMemory layer_memory(const CpuLayerConfig& config, GradientMode mode) {
  const LayerShape& shape = config.shape;
  const int64_t row_bytes = shape.hidden * dtype_bytes(shape.dtype);
  const int64_t pairs = int64_t{config.max_tokens} * shape.topk;
  LayerMemory memory;
  memory.pools = RowPool::bytes(config);
  memory.results = pairs * (row_bytes + static_cast<int64_t>(sizeof(float)));
  memory.replica_slots = config.replica_slots * shape.expert_bytes();
  memory.gradient_slots = config.replica_slots * shape.expert_gradient_bytes();
  memory.packed_weights = WeightPacks::bytes(config, static_cast<int32_t>(most_owned(config)));
  memory.tiles = TileBuffers::bytes(config);
  memory.routes = (shape.num_experts + 1 + pairs) * static_cast<int64_t>(sizeof(int32_t));
  memory.accumulators = num_accumulators(config, static_cast<int32_t>(most_owned(config)), mode) *
                        shape.expert_gradient_bytes();
  return memory;
}

SupportReport supports(const CpuLayerConfig& config, int64_t memory_limit_bytes) {
  SupportReport report;
  std::string reason;
  CpuLayerConfig resolved;
  try {
    resolved = resolve_config(config);
  } catch (const Error& error) {
    reason = error.what();
  }
  report.require(reason.empty(), "a valid shape and configuration", reason);
  report.require(is_available(config.gemm),
                 "GEMM backend \"" + std::string(gemm_backend_name(config.gemm)) + "\"",
                 "not in this build or not on this CPU");
  if (!reason.empty()) return report;
  report.memory = layer_memory(resolved);
  const int64_t total = report.memory.total() * resolved.num_ranks;
  report.require(
      memory_limit_bytes == 0 || total <= memory_limit_bytes,
      std::to_string(total) + " bytes for " + std::to_string(resolved.num_ranks) + " ranks",
      "the limit is " + std::to_string(memory_limit_bytes) + " bytes");
  return report;
}

}  // namespace megaflux
