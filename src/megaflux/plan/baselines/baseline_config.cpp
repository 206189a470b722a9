#include "megaflux/plan/baselines/baseline_config.h"

#include <limits>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

constexpr int32_t kMillion = 1'000'000;

void check_number(const char* name, int64_t value, int64_t least, int64_t most) {
  MF_CHECK(value >= least && value <= most, name, ": ", value, " is outside [", least, ", ", most,
           "]");
}

void check_eplb(const EplbOptions& options, int32_t num_experts, int32_t num_ranks) {
  check_number("eplb.num_groups", options.num_groups, 1, num_experts);
  check_number("eplb.num_nodes", options.num_nodes, 1, num_ranks);
  MF_CHECK(num_experts % options.num_groups == 0, "eplb.num_groups: ", options.num_groups,
           " does not divide E = ", num_experts);
  MF_CHECK(num_ranks % options.num_nodes == 0, "eplb.num_nodes: ", options.num_nodes,
           " does not divide P = ", num_ranks);
}

void check_lplb(const LplbOptions& options) {
  if (options.source_of.empty()) return;
  const int32_t columns = options.num_columns;
  MF_CHECK(columns >= 1 && options.source_of.size() % columns == 0,
           "lplb.source_of: ", options.source_of.size(), " entries are no table of ", columns,
           " columns");
  const auto num_ranks = static_cast<int32_t>(options.source_of.size() / columns);
  for (int32_t d = 0; d < columns; ++d) {
    std::vector<uint8_t> seen(num_ranks, 0);
    for (int32_t rank = 0; rank < num_ranks; ++rank) {
      const int32_t source = options.source_of[rank * columns + d];
      check_number("lplb.source_of", source, 0, num_ranks - 1);
      MF_CHECK(source != rank && seen[source] == 0, "lplb.source_of: column ", d, ", rank ", rank,
               ": ", source, " is its own or there twice");
      seen[source] = 1;
    }
  }
}

}  // namespace

void check_baselines(const BaselineConfig& config, int32_t num_experts, int32_t num_ranks) {
  constexpr int32_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  check_number("ultraep.margin_ppm", config.ultraep.margin_ppm, 0, 10 * kMillion);
  check_number("ultraep.threshold_ppm", config.ultraep.threshold_ppm, 0, 10 * kMillion);
  check_number("ultraep.min_rows_per_replica", config.ultraep.min_rows_per_replica, 1, kMaxInt32);
  check_eplb(config.eplb, num_experts, num_ranks);
  check_lplb(config.lplb);
  check_number("llep.alpha_ppm", config.llep.alpha_ppm, 1, 1000 * kMillion);
  check_number("llep.min_rows", config.llep.min_rows, 1, kMaxInt32);
  check_number("llep.gate_ppm", config.llep.gate_ppm, 0, kMaxInt32);
  if (config.echo.reclaim_ppm) {
    check_number("echo.reclaim_ppm", *config.echo.reclaim_ppm, 0, 10 * kMillion);
  }
  check_number("broadcast.gflops", config.broadcast.gflops, 1, 1'000'000'000);
  check_number("broadcast.link_mb_per_s", config.broadcast.link_mb_per_s, 1, 1'000'000'000);
  check_number("broadcast.hidden", config.broadcast.hidden, 1, 1 << 16);
  check_number("broadcast.inter", config.broadcast.inter, 1, 1 << 16);
  MF_CHECK(config.history.empty() || config.history.size() == static_cast<size_t>(num_experts),
           "history: ", config.history.size(), " entries, E = ", num_experts, " are needed");
  for (const int64_t rows : config.history) {
    check_number("history", rows, 0, std::numeric_limits<int64_t>::max() / num_experts);
  }
}

void add_to_hash(const BaselineConfig& config, Hasher& hasher) {
  const BroadcastOptions& broadcast = config.broadcast;
  for (const int64_t value : std::initializer_list<int64_t>{
           config.ultraep.margin_ppm, config.ultraep.threshold_ppm,
           config.ultraep.min_rows_per_replica, config.ultraep.owner_may_be_empty,
           config.eplb.num_groups, config.eplb.num_nodes, int64_t(config.eplb.selection),
           int64_t(config.lplb.solver), config.lplb.num_columns, config.llep.alpha_ppm,
           config.llep.min_rows, config.llep.gate_ppm, int64_t(config.echo.mode),
           config.echo.reclaim_ppm.value_or(-1), broadcast.gflops, broadcast.link_mb_per_s,
           broadcast.hidden, broadcast.inter, int64_t(config.lplb.source_of.size())}) {
    hasher.add64(static_cast<uint64_t>(value));
  }
  hasher.add_span<int32_t>(config.lplb.source_of);
  for (const int64_t rows : config.history) hasher.add64(static_cast<uint64_t>(rows));
}

}  // namespace megaflux
