#include "megaflux/plan/planner.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "megaflux/base/check.h"
#include "megaflux/base/hash.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/plan/baselines/placement_planner.h"
#include "megaflux/plan/baselines/row_baseline.h"
#include "megaflux/plan/cost_rules.h"
#include "megaflux/plan/domain_planner.h"

namespace megaflux {
namespace {

constexpr std::array<std::string_view, 11> kPlannerNames = {
    "megaflux", "paper", "quota", "fixed",  "ultraep",   "eplb",
    "lplb",     "llep",  "echo",  "moonep", "broadcast",
};
constexpr std::array<std::string_view, 3> kObjectiveNames = {"forward", "backward", "cost"};
constexpr std::array<std::string_view, 5> kGateNames = {"not asked", "replicate", "fixed",
                                                        "pre-gate", "few rows"};

// Rows of other work on a rank, and of lambda: finish times, scaled by 1024 and by speeds, stay in
// 64 bits.
constexpr int64_t kMaxBaseRows = int64_t{1} << 30;
constexpr int32_t kMaxSlackPpm = 10'000'000;

template <typename Enum, size_t N>
Enum parse_name(std::string_view kind, std::string_view name,
                const std::array<std::string_view, N>& names) {
  std::string known;
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
    known += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  throw_error(ErrorCode::kBadInput, kind, ": '", name, "' is not one of ", known);
}

template <typename T>
void check_table_size(const char* name, const std::vector<T>& table, int32_t needed) {
  MF_CHECK(table.empty() || table.size() == static_cast<size_t>(needed), name, ": ", table.size(),
           " entries, ", needed, " are needed");
}

template <typename T>
void check_table_values(const char* name, const std::vector<T>& table, int64_t least,
                        int64_t most) {
  for (size_t i = 0; i < table.size(); ++i) {
    MF_CHECK(table[i] >= least && table[i] <= most, name, "[", i, "]: ", +table[i], " is outside [",
             least, ", ", most, "]");
  }
}

void check_number(const char* name, int64_t value, int64_t least, int64_t most) {
  MF_CHECK(value >= least && value <= most, name, ": ", value, " is outside [", least, ", ", most,
           "]");
}

void check_cost(const PlanConfig& config) {
  if (!config.cost) {
    MF_CHECK(config.objective != Objective::kCost,
             "cost objective needs a shape (hidden and inter) and a machine: config.cost is empty");
    return;
  }
  MF_CHECK(config.cost->block_ps >= 1, "cost.block_ps: 0, a block takes at least 1 ps");
  MF_CHECK(config.cost->link_bytes_per_us >= 1, "cost.link_bytes_per_us: 0, at least 1 is needed");
  MF_CHECK(config.cost->pool_blocks >= 0, "cost.pool_blocks: ", config.cost->pool_blocks,
           " is below 0");
}

// The table, or `count` times the value that an empty one stands for.
template <typename T>
std::vector<T> or_default(const std::vector<T>& table, int32_t count, T value) {
  return table.empty() ? std::vector<T>(count, value) : table;
}

}  // namespace

std::string_view planner_name(PlannerKind kind) {
  return kPlannerNames[size_t(kind)];
}
std::string_view objective_name(Objective objective) {
  return kObjectiveNames[size_t(objective)];
}
std::string_view gate_name(GateDecision decision) {
  return kGateNames[size_t(decision)];
}

std::span<const std::string_view> planner_names() {
  return kPlannerNames;
}

bool is_baseline(PlannerKind kind) {
  return kind >= PlannerKind::kUltraep;
}

PlannerKind parse_planner(std::string_view name) {
  return parse_name<PlannerKind>("planner", name, kPlannerNames);
}

Objective parse_objective(std::string_view name) {
  return parse_name<Objective>("objective", name, kObjectiveNames);
}

void check_config(const PlanConfig& config) {
  constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  const PlanDims& dims = config.dims;
  check_dims(dims);
  check_number("lambda_blocks", config.lambda_blocks, 0, kMaxBaseRows / dims.block_rows);
  check_number("slack_ppm", config.slack_ppm, 0, kMaxSlackPpm);
  check_number("min_copy_blocks", config.min_copy_blocks, 1, kMaxInt32);
  check_number("min_rows_per_replica", config.min_rows_per_replica, 1, kMaxInt32);
  check_number("min_forward_rows", config.min_forward_rows, 0, std::numeric_limits<int64_t>::max());
  check_table_size("owner_of", config.owner_of, dims.num_experts);
  check_table_size("domain_of", config.domain_of, dims.num_ranks);
  check_table_size("active", config.active, dims.num_ranks);
  check_table_size("base_blocks", config.base_blocks, dims.num_ranks);
  check_table_size("speed", config.speed, dims.num_ranks);
  check_table_values("owner_of", config.owner_of, 0, dims.num_ranks - 1);
  check_table_values("domain_of", config.domain_of, 0, kMaxInt32);
  check_table_values("active", config.active, 0, 1);
  check_table_values("base_blocks", config.base_blocks, 0, kMaxBaseRows / dims.block_rows);
  check_table_values("speed", config.speed, 1, std::numeric_limits<uint16_t>::max());
  MF_CHECK(config.active.empty() ||
               std::find(config.active.begin(), config.active.end(), 1) != config.active.end(),
           "active: all ", dims.num_ranks, " ranks are inactive, at least one must be active");
  check_cost(config);
  check_baselines(config.baselines, dims.num_experts, dims.num_ranks);
}

uint64_t config_hash(const PlanConfig& config) {
  check_config(config);
  const PlanDims& dims = config.dims;
  // Quota has no use for it.
  const bool is_row_wise = config.planner == PlannerKind::kQuota;
  const int32_t min_copy_blocks = is_row_wise ? 1 : config.min_copy_blocks;
  Hasher hasher;
  for (const int32_t value :
       {static_cast<int32_t>(config.planner), static_cast<int32_t>(config.objective),
        dims.num_experts, dims.num_ranks, dims.replica_slots, dims.block_rows, config.lambda_blocks,
        config.slack_ppm, min_copy_blocks, config.min_rows_per_replica}) {
    hasher.add(static_cast<uint32_t>(value));
  }
  hasher.add64(static_cast<uint64_t>(config.min_forward_rows));
  // An empty table hashes like the values that it stands for.
  const std::vector<int32_t> owners = config.owner_of.empty()
                                          ? contiguous_owners(dims.num_experts, dims.num_ranks)
                                          : config.owner_of;
  hasher.add_span<int32_t>(owners);
  hasher.add_span<int32_t>(or_default(config.domain_of, dims.num_ranks, 0));
  hasher.add_span<uint8_t>(or_default<uint8_t>(config.active, dims.num_ranks, 1));
  hasher.add_span<int32_t>(or_default(config.base_blocks, dims.num_ranks, 0));
  hasher.add_span<uint16_t>(or_default<uint16_t>(config.speed, dims.num_ranks, 1024));
  hasher.add(config.cost.has_value());
  if (config.cost) {
    const CostModel& cost = *config.cost;
    for (const uint64_t value :
         {cost.block_ps, cost.weight_bytes, cost.gradient_bytes, cost.link_bytes_per_us,
          send_rate(cost), cost.plan_ns, cost.pre_gate_ns, cost.copy_latency_ns, cost.round_ns,
          static_cast<uint64_t>(cost.pool_blocks)}) {
      hasher.add64(value);
    }
  }
  if (is_baseline(config.planner)) add_to_hash(config.baselines, hasher);
  return hasher.value();
}

void check_runs_as_configured(const PlanConfig& config, const PlanReport& report) {
  const std::string_view name = planner_name(config.planner);
  if (report.slots_needed > config.dims.replica_slots) {
    throw_error(ErrorCode::kUnsupported, name, ": this step's plan needs ", report.slots_needed,
                " replica slots a rank, there are ", config.dims.replica_slots);
  }
  if (report.moved_owners > 0) {
    throw_error(ErrorCode::kUnsupported, name, ": this step's plan gives ", report.moved_owners,
                " experts another owner, their weights stay where they are");
  }
}

PlanConfig config_as_planned(const PlanConfig& config, const Plan& plan) {
  PlanConfig planned = config;
  planned.dims.replica_slots = plan.dims().replica_slots;
  planned.owner_of.assign(plan.owner_of().begin(), plan.owner_of().end());
  return planned;
}

std::unique_ptr<Planner> make_planner(PlanConfig config) {
  check_config(config);
  if (config.owner_of.empty()) {
    config.owner_of = contiguous_owners(config.dims.num_experts, config.dims.num_ranks);
  }
  switch (config.planner) {
    case PlannerKind::kMegaflux:
    case PlannerKind::kPaper:
      return make_portfolio_planner(std::move(config));
    case PlannerKind::kQuota:
      return make_quota_planner(std::move(config));
    case PlannerKind::kFixed:
      return make_fixed_planner(std::move(config));
    case PlannerKind::kUltraep:
      return make_ultraep_planner(std::move(config));
    case PlannerKind::kEplb:
      return make_eplb_planner(std::move(config));
    case PlannerKind::kLplb:
      return make_lplb_planner(std::move(config));
    case PlannerKind::kLlep:
      return make_llep_planner(std::move(config));
    case PlannerKind::kEcho:
      return make_echo_planner(std::move(config));
    case PlannerKind::kMoonep:
      return make_moonep_planner(std::move(config));
    case PlannerKind::kBroadcast:
      return make_broadcast_planner(std::move(config));
  }
  throw_error(ErrorCode::kBadInput, "planner: ", static_cast<int>(config.planner),
              " is not a planner");
}

}  // namespace megaflux
