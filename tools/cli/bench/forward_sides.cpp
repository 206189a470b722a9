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

PlanConfig fixed_config(const GpuBenchOptions& options) {
  PlanConfig config;
  config.planner = PlannerKind::kFixed;
  config.dims = {.num_experts = options.num_experts,
                 .num_ranks = options.plan.num_ranks,
                 .block_rows = options.plan.block_rows};
  config.owner_of = contiguous_owners(config.dims.num_experts, config.dims.num_ranks);
  return config;
}

// The second ideal: the loads of all ranks equal, those of experts as routed. The same kernel and
// head over the same routing, with owners that know the loads and every slot that a device allows:
// what is left over for replicas is little, and the portfolio deals it out to the block. The table
// shows the largest load beside tau, which equal loads meet.
PlanConfig second_ideal_config(const GpuBenchOptions& options, const LoadTable& loads) {
  PlanConfig config = fixed_config(options);
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

// Planned first; what does not differ from it is left out. Nothing moves in the ideals.
std::vector<ForwardSide> all_sides(const GpuBenchOptions& options, std::span<const Routing> routes,
                                   std::span<const Routing> balanced) {
  PlanConfig planned = plan_config_of(options.plan, options.num_experts, options.topk);
  const PlanConfig fixed = fixed_config(options);
  planned.owner_of = fixed.owner_of;
  std::vector<ForwardSide> sides = {{"planned", {planned, routes}}};
  if (options.plan.num_ranks > 1) {
    const bool has_replicas =
        planned.planner != PlannerKind::kFixed && planned.dims.replica_slots > 0;
    if (has_replicas) {
      sides.push_back({"staged", {planned, routes, ReplicaTransfer::kStaged}});
      sides.push_back({"resident", {planned, routes, ReplicaTransfer::kInPlace}});
    }
    if (planned.planner != PlannerKind::kFixed) sides.push_back({"fixed", {fixed, routes}});
    if (has_replicas && planned.objective == Objective::kCost) {
      sides.push_back({"ungated", {ungated_config(planned), routes}});
    }
    const LoadTable loads = LoadTable::from_routing(routes, options.num_experts);
    sides.push_back(
        {"second ideal", {second_ideal_config(options, loads), routes, ReplicaTransfer::kInPlace}});
  }
  sides.push_back({"ideal", {fixed, balanced}});
  return sides;
}

}  // namespace

const Choices& forward_side_names() {
  static const Choices names = {"planned", "staged",       "resident", "fixed",
                                "ungated", "second ideal", "ideal"};
  return names;
}

std::vector<ForwardSide> make_sides(const GpuBenchOptions& options, std::span<const Routing> routes,
                                    std::span<const Routing> balanced,
                                    std::span<const std::string> names) {
  std::vector<ForwardSide> sides = all_sides(options, routes, balanced);
  if (names.empty()) return sides;
  for (const std::string& name : names) {
    MF_CHECK(std::ranges::find(sides, name, &ForwardSide::name) != sides.end(), "--sides: ", name,
             " is no placement of its own with --ranks ", options.plan.num_ranks, ", --planner ",
             options.plan.planner, ", --objective ", options.plan.objective, " and --slots ",
             options.plan.replica_slots);
  }
  std::erase_if(sides, [&](const ForwardSide& side) {
    return side.name != "planned" && std::ranges::find(names, side.name) == names.end();
  });
  return sides;
}

}  // namespace megaflux::cli
