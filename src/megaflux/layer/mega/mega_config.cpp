#include "megaflux/layer/mega/mega_config.h"

#include <algorithm>

#include "megaflux/base/check.h"
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
  return static_cast<int32_t>(rows / kTileRows + std::min<int64_t>(num_weights(), rows));
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

MegaConfig resolve_config(MegaConfig config, int32_t device_sms) {
  check_shape_here(config.shape);
  MF_CHECK(config.num_ranks == 1, "num_ranks: ", config.num_ranks,
           ", and this executor serves a layer whose experts all live on one rank");
  MF_CHECK(config.replica_slots >= 0 && config.replica_slots <= kMaxDeviceSlots,
           "replica_slots: ", config.replica_slots, " is outside [0, ", kMaxDeviceSlots, "]");
  const int64_t pairs = int64_t{config.max_tokens} * config.shape.topk;
  MF_CHECK(config.max_tokens >= 0 && pairs < (int64_t{1} << 30), "max_tokens: ", config.max_tokens,
           " x topk ", config.shape.topk, " is outside [0, 2^30)");
  if (config.pool_rows == 0) {
    config.pool_rows = ceil_div(5 * pairs, int64_t{4}) + int64_t{kTileRows} * config.num_weights();
  }
  MF_CHECK(config.pool_rows >= kTileRows && config.pool_rows < (int64_t{1} << 31),
           "pool_rows: ", config.pool_rows, " is outside [", kTileRows, ", 2^31)");
  config.pool_rows -= config.pool_rows % kTileRows;
  const int64_t tasks = int64_t{config.max_tiles()} * (config.fc1_columns() + config.fc2_columns());
  MF_CHECK(tasks < (int64_t{1} << 31), "max_tokens: ", config.max_tokens, " make ", tasks,
           " tasks, which must be below 2^31");
  if (config.num_sms == 0) config.num_sms = device_sms;
  MF_CHECK(config.num_sms >= 1 && config.num_sms <= device_sms, "num_sms: ", config.num_sms,
           " is outside [1, ", device_sms, "], the SMs of the device");
  MF_CHECK(config.lag_waves >= 1 && config.lag_waves <= 64, "lag_waves: ", config.lag_waves,
           " is outside [1, 64]");
  return config;
}

}  // namespace megaflux
