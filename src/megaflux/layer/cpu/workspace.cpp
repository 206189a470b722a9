#include "megaflux/layer/cpu/workspace.h"

#include <algorithm>
#include <cstring>

#include "megaflux/layer/cpu/vector_loops.h"
#include "megaflux/moe/owner_table.h"

namespace megaflux {
namespace {

// Bytes of one tile and its padding.
int64_t tile_bytes(const CpuLayerConfig& config, int64_t row_bytes) {
  return config.gemm_rows * row_bytes;
}

HostBuffer tile_floats(const CpuLayerConfig& config, int64_t width) {
  return HostBuffer(tile_bytes(config, width * int64_t{sizeof(float)}), config.is_memory_poisoned);
}

// The GEMM reads another type than the pool holds, or more rows than a tile of the pool has.
bool needs_staging(const CpuLayerConfig& config) {
  return config.shape.dtype != operand_dtype(config.gemm) || config.gemm_rows > kTileRows;
}

HostBuffer staging_tile(const CpuLayerConfig& config) {
  if (!needs_staging(config)) return {};
  const int64_t row_bytes = config.shape.hidden * dtype_bytes(operand_dtype(config.gemm));
  HostBuffer tile(tile_bytes(config, row_bytes), config.is_memory_poisoned);
  std::memset(tile.data() + kTileRows * row_bytes, 0,
              static_cast<size_t>(tile.bytes() - kTileRows * row_bytes));
  return tile;
}

int64_t float_bytes(int64_t count) {
  return count * int64_t{sizeof(float)};
}

}  // namespace

RowPool::RowPool(const CpuLayerConfig& config)
    : num_tiles_(config.pool_tiles()),
      row_bytes_(config.shape.hidden * dtype_bytes(config.shape.dtype)),
      x_(config.pool_rows * row_bytes_, config.is_memory_poisoned),
      dy_(config.pool_rows * row_bytes_, config.is_memory_poisoned),
      p_(config.pool_rows),
      origins_(config.pool_rows) {}

int64_t RowPool::bytes(const CpuLayerConfig& config) {
  const int64_t row_bytes = config.shape.hidden * dtype_bytes(config.shape.dtype);
  return config.pool_rows * (2 * row_bytes + int64_t{sizeof(float)} + int64_t{sizeof(RowOrigin)});
}

OperandTile::OperandTile(const CpuLayerConfig& config, int64_t width)
    : width_(width),
      is_rounded_(config.shape.dtype == DType::kBf16),
      is_narrow_(operand_dtype(config.gemm) == DType::kBf16),
      num_rows_(config.gemm_rows),
      values_(tile_floats(config, width)),
      narrow_(is_narrow_ ? tile_bytes(config, width * int64_t{sizeof(Bf16)}) : 0,
              config.is_memory_poisoned) {}

int64_t OperandTile::bytes(const CpuLayerConfig& config, int64_t width) {
  const bool is_narrow = operand_dtype(config.gemm) == DType::kBf16;
  return tile_bytes(config, width * int64_t{is_narrow ? 6 : 4});
}

const void* OperandTile::finish(int32_t num_rows) {
  float* values = values_.as<float>();
  const int64_t used = num_rows * width_;
  const int64_t all = num_rows_ * width_;
  if (is_rounded_) round_in_place(values, used);
  std::fill(values + used, values + all, 0.0f);
  if (is_narrow_) narrow(values, narrow_.as<Bf16>(), all);
  return operand();
}

TileBuffers::TileBuffers(const CpuLayerConfig& config)
    : x_staged(staging_tile(config)),
      dy_staged(staging_tile(config)),
      z(tile_floats(config, 2 * config.shape.inter)),
      da(tile_floats(config, config.shape.inter)),
      o(tile_floats(config, config.shape.hidden)),
      a_row(float_bytes(config.shape.inter), config.is_memory_poisoned),
      pa(config, config.shape.inter),
      dz(config, 2 * config.shape.inter) {
  for (int32_t i = 0; i <= config.fc2_lag_tiles; ++i) a.emplace_back(config, config.shape.inter);
}

int64_t TileBuffers::bytes(const CpuLayerConfig& config) {
  const int64_t hidden = config.shape.hidden;
  const int64_t inter = config.shape.inter;
  const int64_t staged =
      needs_staging(config) ? 2 * hidden * dtype_bytes(operand_dtype(config.gemm)) : 0;
  return tile_bytes(config, staged + float_bytes(3 * inter + hidden)) + float_bytes(inter) +
         (config.fc2_lag_tiles + 2) * OperandTile::bytes(config, inter) +
         OperandTile::bytes(config, 2 * inter);
}

RankWorkspace::RankWorkspace(const CpuLayerConfig& resolved, const LayerFields& layer_fields,
                             int32_t rank_idx)
    : config(resolved),
      fields(layer_fields),
      rank(rank_idx),
      num_owned(owned_experts(config.owner_of, config.num_ranks)[rank_idx]),
      local_index(local_index_of(config.owner_of, config.num_ranks)),
      pool(config),
      slots(config),
      slot_arrivals(config.replica_slots),
      gemms(config),
      packs(config, num_owned, gemms),
      tiles(config),
      token_sum(config.shape.hidden),
      forward_first_tile(config.shape.num_experts) {
  report.clear(config.num_ranks);
}

}  // namespace megaflux
