#include "megaflux/layer/mega/mega_config.h"

#include <algorithm>
#include <bit>

#include "megaflux/base/bf16.h"
#include "megaflux/base/check.h"
#include "megaflux/base/hash.h"
#include "megaflux/base/math.h"
#include "megaflux/moe/limits.h"
#include "megaflux/moe/work_list.h"

namespace megaflux {
namespace {

void check_shape_here(const LayerShape& shape) {
  check_shape(shape);
  MF_CHECK(shape.dtype == DType::kBf16, "dtype: ", dtype_name(shape.dtype), ", needed is bf16");
  MF_CHECK(shape.num_experts <= kMaxDeviceExperts, "num_experts: ", shape.num_experts,
           " is outside [1, ", kMaxDeviceExperts, "]");
  MF_CHECK(shape.hidden % kTurnedColumns == 0, "hidden: ", shape.hidden, " is no multiple of ",
           kTurnedColumns);
  MF_CHECK(shape.inter % kTurnedColumns == 0, "inter: ", shape.inter, " is no multiple of ",
           kTurnedColumns);
}

}  // namespace

int32_t MegaConfig::pool_tiles() const {
  return static_cast<int32_t>(pool_rows / kTileRows);
}

int32_t MegaConfig::max_tiles() const {
  const int64_t rows = int64_t{num_ranks} * max_tokens * shape.topk;
  // Each part may end in a tile of its own, and has at least a row.
  return static_cast<int32_t>(rows / kTileRows + std::min<int64_t>(most_weights(), rows));
}

int32_t MegaConfig::fc1_columns() const {
  return ceil_div(shape.inter, kTileChannels);
}

int32_t MegaConfig::fc2_columns() const {
  return ceil_div(shape.hidden, kTileColumns);
}

int32_t MegaConfig::unit_tiles() const {
  return std::clamp(pool_tiles() / 4, 1, kUnitTiles);
}

WeightCut MegaConfig::w1_cut() const {
  return {.halves = 2,
          .rows = shape.inter,
          .row_bytes = shape.hidden * int32_t{sizeof(Bf16)},
          .tile_rows = kTileChannels};
}

WeightCut MegaConfig::w2_cut() const {
  return {.halves = 1,
          .rows = shape.hidden,
          .row_bytes = shape.inter * int32_t{sizeof(Bf16)},
          .tile_rows = kTileColumns};
}

MegaConfig resolve_config(MegaConfig config, int32_t rank_sms) {
  check_shape_here(config.shape);
  MF_CHECK(config.num_ranks >= 1 && config.num_ranks <= kMaxDeviceRanks,
           "num_ranks: ", config.num_ranks, " is outside [1, ", kMaxDeviceRanks, "]");
  const int32_t num_experts = config.shape.num_experts;
  const int32_t least_owned = ceil_div(num_experts, config.num_ranks);
  if (config.most_owned == 0) config.most_owned = least_owned;
  MF_CHECK(config.most_owned >= least_owned && config.most_owned <= num_experts,
           "most_owned: ", config.most_owned, " is outside [", least_owned, ", ", num_experts, "]");
  MF_CHECK(config.replica_slots >= 0 && config.replica_slots <= kMaxDeviceSlots,
           "replica_slots: ", config.replica_slots, " is outside [0, ", kMaxDeviceSlots, "]");
  const int64_t pairs = int64_t{config.max_tokens} * config.shape.topk;
  MF_CHECK(config.max_tokens >= 0 && pairs < (int64_t{1} << 30), "max_tokens: ", config.max_tokens,
           " x topk ", config.shape.topk, " is outside [0, 2^30)");
  MF_CHECK(pairs * config.num_ranks < (int64_t{1} << 31), "max_tokens: ", config.max_tokens,
           " x topk ", config.shape.topk, " on ", config.num_ranks, " ranks is at or above 2^31");
  if (config.pool_rows == 0) {
    config.pool_rows = ceil_div(5 * pairs, int64_t{4}) + int64_t{kTileRows} * config.most_weights();
  }
  MF_CHECK(config.pool_rows >= kTileRows && config.pool_rows < (int64_t{1} << 31),
           "pool_rows: ", config.pool_rows, " is outside [", kTileRows, ", 2^31)");
  config.pool_rows -= config.pool_rows % kTileRows;
  const int64_t tasks = int64_t{config.max_tiles()} * (config.fc1_columns() + config.fc2_columns());
  MF_CHECK(tasks < (int64_t{1} << 31), "max_tokens: ", config.max_tokens, " make ", tasks,
           " tasks, which must be below 2^31");
  MF_CHECK(rank_sms >= 1, "rank_sms: ", rank_sms, ", the device hosts more ranks than it has SMs");
  if (config.num_sms == 0) config.num_sms = rank_sms;
  MF_CHECK(config.num_sms >= 1 && config.num_sms <= rank_sms, "num_sms: ", config.num_sms,
           " is outside [1, ", rank_sms, "], the SMs that a rank can have");
  MF_CHECK(config.lag_waves >= 1 && config.lag_waves <= 64, "lag_waves: ", config.lag_waves,
           " is outside [1, 64]");
  return config;
}

uint64_t config_hash(const MegaConfig& config) {
  const LayerShape& shape = config.shape;
  Hasher hasher;
  for (const int32_t number :
       {shape.num_experts, shape.topk, shape.hidden, shape.inter, config.num_ranks,
        config.most_owned, config.replica_slots, config.max_tokens}) {
    hasher.add(static_cast<uint32_t>(number));
  }
  hasher.add(static_cast<uint32_t>(shape.gate_order));
  hasher.add(static_cast<uint32_t>(shape.activation.kind));
  hasher.add(std::bit_cast<uint32_t>(shape.activation.limit));
  hasher.add(std::bit_cast<uint32_t>(shape.activation.alpha));
  hasher.add(shape.has_bias ? 1u : 0u);
  return hasher.value();
}

}  // namespace megaflux
