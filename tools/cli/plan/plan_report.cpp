#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/load_bars.h"
#include "cli/plan/plan_result.h"
#include "cli/terminal.h"
#include "cli/text_format.h"

namespace megaflux::cli {
namespace {

// More replicas than this are summed up in one line.
constexpr int32_t kMaxListedReplicas = 40;

int64_t largest(const std::vector<int64_t>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// Planners in rows have blocks of one.
std::string unit_of(const PlanResult& result) {
  return result.plan.dims().block_rows == 1 ? "row" : "block";
}

void print_title(const TextStyle& style, const PlanResult& result) {
  const PlanDims dims = result.plan.dims();
  fmt::print("{}\n",
             paint(style, Colour::kBold,
                   fmt::format("{} experts on {}, {} each, blocks of {}", dims.num_experts,
                               plural(dims.num_ranks, "rank"), plural(dims.replica_slots, "slot"),
                               plural(dims.block_rows, "row"))));
  const LoadTable& loads = result.input.loads;
  fmt::print("{}: {} rows{}kappa {:.2f}\n\n", printable(result.input.origin),
             count_text(loads.total_rows()), separator(style), kappa(loads));
}

void print_balance(const TextStyle& style, const PlanResult& result) {
  const PlanStats& stats = result.stats;
  const std::string unit = unit_of(result);
  fmt::print("\nimbalance {:.2f} {} {}{}slowest rank {} of at least {} {} (tau)\n",
             result.fixed_stats.blocks.imbalance, arrow(style),
             paint(style, Colour::kBold, fmt::format("{:.2f}", stats.blocks.imbalance)),
             separator(style), count_text(largest(stats.finish)), count_text(stats.tau),
             unit + "s");
  fmt::print("replicas {}{}{} to copy{}{} moved", stats.num_replicas, separator(style),
             stats.num_copies, separator(style), plural(stats.moved_blocks, unit));
  if (stats.remote_rows) {
    fmt::print("{}{} rows leave their source", separator(style), count_text(*stats.remote_rows));
  }
  if (result.bytes) {
    fmt::print("{}at most {} into a rank, {} out", separator(style),
               bytes_text(static_cast<uint64_t>(largest(result.bytes->in))),
               bytes_text(static_cast<uint64_t>(largest(result.bytes->out))));
  }
  fmt::print("\n");
}

// What only other systems' planners do.
void print_beyond_budget(const TextStyle& style, const PlanResult& result) {
  const int32_t slots = result.config.dims.replica_slots;
  if (result.report.slots_needed > slots) {
    fmt::print("over the budget: {} a rank needed, there {} {}\n",
               plural(result.report.slots_needed, "slot"), slots == 1 ? "is" : "are", slots);
  }
  if (result.report.moved_owners > 0) {
    fmt::print("{} another owner{}their weights move as well\n",
               result.report.moved_owners == 1
                   ? "1 expert has"
                   : fmt::format("{} experts have", result.report.moved_owners),
               separator(style));
  }
}

std::string microseconds(const std::optional<uint64_t>& ns) {
  return ns ? seconds_text(static_cast<double>(*ns) * 1e-9) : "unknown";
}

void print_gate(const PlanResult& result) {
  const PlanReport& report = result.report;
  fmt::print("gate: {}", gate_name(report.gate));
  if (report.predicted_ns) {
    fmt::print(", predicted {}, fixed placement {}", microseconds(report.predicted_ns),
               microseconds(report.predicted_fixed_ns));
  } else {
    fmt::print(", no prediction without --hidden and --inter");
  }
  fmt::print("\n");
}

}  // namespace

void print_replicas(const Plan& plan, const LoadTable& loads) {
  const PlanDims dims = plan.dims();
  int32_t num_listed = 0;
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    for (const Instance& instance : plan.instances_of(e)) {
      if (instance.slot < 0 || ++num_listed > kMaxListedReplicas) continue;
      const int64_t rows =
          loads.rows_in_blocks(e, instance.first_block, instance.num_blocks, dims.block_rows);
      fmt::print("  expert {:>4}  of rank {:>3}  on rank {:>3} slot {}  {:>9} rows\n", e,
                 plan.owner_of()[e], instance.rank, instance.slot, count_text(rows));
    }
  }
  if (num_listed > kMaxListedReplicas) {
    fmt::print("  and {} more, all of them with --json\n", num_listed - kMaxListedReplicas);
  }
}

void print_plan(const PlanResult& result) {
  const TextStyle style = style_of(STDOUT_FILENO);
  print_title(style, result);
  print_load_bars(style, {.unit = unit_of(result) + "s",
                          .before = result.fixed_stats.load_blocks,
                          .after = result.stats.load_blocks});
  print_balance(style, result);
  print_beyond_budget(style, result);
  print_replicas(result.plan, result.input.loads);
  print_gate(result);
  if (!result.device.empty()) {
    fmt::print("planned by {}, byte for byte as by the host\n", printable(result.device));
  }
}

}  // namespace megaflux::cli
