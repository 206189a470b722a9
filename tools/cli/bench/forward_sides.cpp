#include "cli/bench/forward_sides.h"

#include <algorithm>
#include <numeric>

#include "megaflux/base/check.h"
#include "megaflux/base/math.h"
#include "megaflux/moe/limits.h"
#include "megaflux/moe/owner_table.h"

namespace megaflux::cli {
namespace {

// Owners that know the loads: experts by falling rows, each to the rank with the fewest rows so far
// among those that hold fewer than ceil(E / P) experts.
std::vector<int32_t> dealt_owners(const LoadTable& loads, int32_t num_ranks) {
  const std::span<const int32_t> totals = loads.totals();
  std::vector<int32_t> by_rows(totals.size()), owner_of(totals.size());
  std::iota(by_rows.begin(), by_rows.end(), 0);
  std::ranges::stable_sort(by_rows, [&](int32_t a, int32_t b) { return totals[a] > totals[b]; });
  const int32_t most = ceil_div(static_cast<int32_t>(totals.size()), num_ranks);
  std::vector<int64_t> rows(num_ranks);
  std::vector<int32_t> held(num_ranks);
  for (const int32_t expert : by_rows) {
    int32_t least = -1;
    for (int32_t rank = 0; rank < num_ranks; ++rank) {
      if (held[rank] < most && (least < 0 || rows[rank] < rows[least])) least = rank;
    }
    owner_of[expert] = least;
    rows[least] += totals[expert];
    ++held[least];
  }
  return owner_of;
}

PlanConfig planned_config(const GpuBenchOptions& options) {
  PlanConfig config = plan_config_of(options.plan, options.num_experts, options.topk);
  config.owner_of = contiguous_owners(config.dims.num_experts, config.dims.num_ranks);
  return config;
}

PlanConfig fixed_config(const PlanConfig& planned) {
  PlanConfig config;
  config.planner = PlannerKind::kFixed;
  config.dims = planned.dims;
  config.dims.replica_slots = 0;
  config.owner_of = planned.owner_of;
  return config;
}

// The second ideal: the loads of all ranks equal, those of experts as routed. The same kernel and
// head over the same routing, with owners that know the loads and every slot that a device allows:
// what is left over for replicas is little, and the portfolio deals it out to the block. The table
// shows the largest load beside tau, which equal loads meet.
PlanConfig second_ideal_config(const PlanConfig& planned, const LoadTable& loads) {
  PlanConfig config = fixed_config(planned);
  config.planner = PlannerKind::kMegaflux;
  config.dims.replica_slots = kMaxDeviceSlots;
  config.owner_of = dealt_owners(loads, config.dims.num_ranks);
  return config;
}

// The planner of `planned` without its gate: as balanced as it gets, whatever that costs.
PlanConfig ungated_config(PlanConfig planned) {
  planned.objective = Objective::kForward;
  return planned;
}

bool has_side(const PlanConfig& planned, const std::string& name) {
  if (name == "planned" || name == "ideal") return true;
  if (planned.dims.num_ranks == 1) return false;
  if (name == "second ideal") return true;
  const bool has_replicas =
      planned.planner != PlannerKind::kFixed && planned.dims.replica_slots > 0;
  return has_replicas && (name != "ungated" || planned.objective == Objective::kCost);
}

// Nothing moves in the ideals.
ForwardRun make_run(const std::string& name, const PlanConfig& planned,
                    std::span<const Routing> routes, std::span<const Routing> balanced) {
  if (name == "staged") return {planned, routes, ReplicaTransfer::kStaged};
  if (name == "resident") return {planned, routes, ReplicaTransfer::kInPlace};
  if (name == "fixed") return {fixed_config(planned), routes};
  if (name == "ungated") return {ungated_config(planned), routes};
  if (name == "second ideal") {
    const LoadTable loads = LoadTable::from_routing(routes, planned.dims.num_experts);
    return {second_ideal_config(planned, loads), routes, ReplicaTransfer::kInPlace};
  }
  if (name == "ideal") return {fixed_config(planned), balanced};
  return {planned, routes};
}

}  // namespace

const Choices& forward_side_names() {
  static const Choices names = {"planned", "staged",       "resident", "fixed",
                                "ungated", "second ideal", "ideal"};
  return names;
}

void check_sides(const GpuBenchOptions& options, std::span<const std::string> names) {
  const PlanConfig planned = planned_config(options);
  for (const std::string& name : names) {
    check_choice("--sides", name, forward_side_names());
    MF_CHECK(has_side(planned, name), "--sides: ", name,
             " is no placement of its own with --ranks ", options.plan.num_ranks, ", --planner ",
             options.plan.planner, ", --objective ", options.plan.objective, " and --slots ",
             options.plan.replica_slots);
  }
}

std::vector<ForwardSide> make_sides(const GpuBenchOptions& options, std::span<const Routing> routes,
                                    std::span<const Routing> balanced,
                                    std::span<const std::string> names) {
  const PlanConfig planned = planned_config(options);
  std::vector<ForwardSide> sides;
  for (const std::string& name : forward_side_names()) {
    const bool is_asked = names.empty() || name == "planned" || std::ranges::count(names, name) > 0;
    if (is_asked && has_side(planned, name)) {
      sides.push_back({name, make_run(name, planned, routes, balanced)});
    }
  }
  return sides;
}

}  // namespace megaflux::cli
