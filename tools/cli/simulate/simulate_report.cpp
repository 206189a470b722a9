#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/simulate/simulate_result.h"
#include "cli/terminal.h"
#include "cli/text_format.h"

namespace megaflux::cli {
namespace {

using simulate::SweepConfig;
using simulate::SweepRow;

constexpr int kBarWidth = 10;

std::string microseconds_text(double microseconds) {
  return seconds_text(microseconds * 1e-6);
}
std::string time_text(const std::optional<simulate::Distribution>& us) {
  return us ? microseconds_text(us->mean) : "-";
}

std::string remote_text(const std::optional<simulate::Distribution>& rows, double total) {
  return rows && total > 0 ? fmt::format("{:.1f} %", 100 * rows->mean / total) : "-";
}

std::string moved_text(const SweepRow& row) {
  if (!row.slot_bytes) return "-";
  return bytes_text(
      static_cast<uint64_t>(row.copies.mean * static_cast<double>(*row.slot_bytes) + 0.5));
}

// What keeps a row from being run as configured.
std::string remark_on(const SweepRow& row) {
  std::string remark;
  if (row.cells_without_plan > 0) {
    remark += fmt::format("  no plan in {} cells", row.cells_without_plan);
  }
  if (row.is_over_budget) remark += fmt::format("  needs {} slots", row.slots_needed);
  if (row.moves_owners) remark += "  moves owners";
  return remark;
}

void print_row(const TextStyle& style, const SweepRow& row) {
  const char* mark = row.is_best ? "*" : row.is_over_budget ? "!" : " ";
  const auto& i = row.imbalance;
  const std::string line = fmt::format(
      "{} {:<10} {:>5} {:>6.3f} {:>6.3f} {:>6.3f} {:>6.3f} {:>8.1f} {:>7.1f} {:>8} {:>7} {:>9} "
      "{:>8} {:>8}",
      mark, variant_name(row.planner), row.replica_slots, i.median, i.p90, i.p99, i.max,
      row.replicas.mean, row.copies.mean, moved_text(row),
      remote_text(row.remote_rows, row.total_rows.mean),
      count_text(static_cast<int64_t>(row.peak_rows.max)), microseconds_text(row.plan_us.median),
      time_text(row.planned_us));
  fmt::print("{}", row.is_best ? paint(style, Colour::kBold, line) : line);
  if (row.share_of_ideal) {
    const Colour colour = row.is_best ? Colour::kGreen : Colour::kCyan;
    fmt::print(" {:>5.1f} % {}", 100 * *row.share_of_ideal,
               paint(style, colour, bar(style, *row.share_of_ideal, kBarWidth)));
  }
  fmt::print("{}\n", paint(style, Colour::kYellow, remark_on(row)));
}

void print_heading(const TextStyle& style, const SweepRow& row) {
  const std::string rows = row.rows_per_rank > 0
                               ? fmt::format("{} rows a rank", count_text(row.rows_per_rank))
                               : fmt::format("rows as recorded, {} a step on average",
                                             count_text(static_cast<int64_t>(row.total_rows.mean)));
  fmt::print("\n{}\n", paint(style, Colour::kBold,
                             fmt::format("{}, {}", plural(row.num_ranks, "rank"), rows)));
  fmt::print("fixed placement: imbalance {:.3f} median, {:.3f} worst", row.imbalance_fixed.median,
             row.imbalance_fixed.max);
  if (row.remote_rows_fixed) {
    fmt::print("{}{} of rows remote", separator(style),
               remote_text(row.remote_rows_fixed, row.total_rows.mean));
  }
  if (row.fixed_us) {
    fmt::print("{}layer {}, of it ideal {} (even routing), second ideal {} (experts as routed)",
               separator(style), time_text(row.fixed_us), time_text(row.ideal_us),
               time_text(row.second_ideal_us));
  }
  fmt::print("\n{}\n", paint(style, Colour::kDim, std::string(19, ' ') + "imbalance"));
  fmt::print("{}\n",
             paint(style, Colour::kDim,
                   fmt::format("  {:<10} {:>5} {:>6} {:>6} {:>6} {:>6} {:>8} {:>7} {:>8} {:>7} "
                               "{:>9} {:>8} {:>8} {}",
                               "planner", "slots", "median", "p90", "p99", "max", "replicas",
                               "copies", "moved", "remote", "peak rows", "plan", "layer",
                               row.share_of_ideal ? "of ideal" : "-")));
}

void print_table(const TextStyle& style, const std::vector<SweepRow>& rows) {
  const SweepRow* above = nullptr;
  for (const SweepRow& row : rows) {
    if (above == nullptr || above->num_ranks != row.num_ranks ||
        above->rows_per_rank != row.rows_per_rank) {
      print_heading(style, row);
    }
    print_row(style, row);
    above = &row;
  }
}

void print_memory(const TextStyle& style, const SweepConfig& config, const TraceResult& result) {
  if (!result.rows[0].slot_bytes) return;
  const int64_t slot_bytes = *result.rows[0].slot_bytes;
  const auto num_layers = static_cast<int64_t>(result.meta.layers.size());
  fmt::print("slot memory: one expert is {}\n", bytes_text(static_cast<uint64_t>(slot_bytes)));
  for (const int32_t slots : config.slots) {
    fmt::print("  {} a rank: {} if all {} share them{}{} if each has its own{}{} saved\n",
               plural(slots, "slot"), bytes_text(static_cast<uint64_t>(slots * slot_bytes)),
               plural(num_layers, "layer"), separator(style),
               bytes_text(static_cast<uint64_t>(slots * slot_bytes * num_layers)), separator(style),
               bytes_text(static_cast<uint64_t>(slots * slot_bytes * (num_layers - 1))));
  }
  const bool has_history = std::any_of(result.rows.begin(), result.rows.end(),
                                       [](const SweepRow& row) { return row.planner.by_history; });
  if (has_history)
    fmt::print("  a placement by history is there in every layer: it cannot share\n");
}

void print_break_even(const SweepConfig& config, const TraceResult& result) {
  if (config.rows_per_rank.size() < 2 || !config.model) return;
  const int64_t last = config.rows_per_rank.back();
  fmt::print("break-even: the least rows a rank from which on a plan is predicted to beat fixed\n");
  for (const SweepRow& row : result.rows) {
    const bool is_ours = row.rows_per_rank == last && row.planner.kind != PlannerKind::kFixed;
    if (!is_ours) continue;
    fmt::print("  {:<10} {}, {}: {}\n", variant_name(row.planner), plural(row.num_ranks, "rank"),
               plural(row.replica_slots, "slot"),
               row.break_even_rows ? fmt::format("{} rows", count_text(*row.break_even_rows))
                                   : "never, among these");
  }
}

void print_legend(const TextStyle& style, const TraceResult& result) {
  const auto line = [&style](const std::string& text) {
    fmt::print("{}\n", paint(style, Colour::kDim, text));
  };
  line(
      fmt::format("over {} (steps x layers). imbalance: most rows of a rank / mean, 1 is even. "
                  "replicas, copies (weights that move), moved, remote",
                  plural(result.num_cells, "cell")));
  line(
      "(rows computed off their source) and layer are means, plan (host time) is a median, peak "
      "rows (padded to tiles of 128) the worst.");
  line(
      "layer: predicted, planner included. of ideal: the time of perfectly even routing / layer. "
      "* best of those that run as configured, ! over the slots");
}

}  // namespace

void print_simulation(const SweepConfig& config, const TraceResult& result) {
  const TextStyle style = style_of(STDOUT_FILENO);
  const TraceMeta& meta = result.meta;
  fmt::print("{}{}{}{}{} experts{}{} x {}{}objective {}, blocks of {}\n",
             paint(style, Colour::kBold, printable(result.name)), separator(style),
             meta.model.empty() ? "model not stated" : printable(meta.model), separator(style),
             meta.num_experts, separator(style),
             plural(static_cast<int64_t>(meta.layers.size()), "layer"),
             plural(result.num_steps, "step"), separator(style),
             objective_name(config.plan.objective), plural(config.plan.dims.block_rows, "row"));
  if (config.model) {
    const simulate::ModelShape& model = *config.model;
    fmt::print("layer {}: H {}, I {}, bf16{}machine {}{}{}\n", model.name, model.hidden,
               model.inter, separator(style), printable(config.machine.name), separator(style),
               config.scope == CostScope::kForward ? "forward" : "forward and backward");
  }
  print_table(style, result.rows);
  fmt::print("\n");
  print_memory(style, config, result);
  print_break_even(config, result);
  for (const std::string& note : result.notes) fmt::print("note: {}\n", note);
  print_legend(style, result);
  if (result.owners) print_owner_comparison(style, *result.owners);
  fmt::print("\n");
}

void print_owner_comparison(const TextStyle& style, const OwnerComparison& owners) {
  fmt::print("\n{}\n", paint(style, Colour::kBold, "suggested owners"));
  fmt::print(
      "chosen by {}, judged by {}\n", plural(owners.num_choosing, "cell"),
      owners.is_held_out
          ? fmt::format("the {} of later steps", plural(owners.num_judging, "cell"))
          : "the same: the trace has no later steps to judge by, expect less of new traffic");
  fmt::print("{}\n", paint(style, Colour::kDim,
                           fmt::format("  {:<10} {:>5} {:>9} {:>27} {:>27} {:>19} {:>23}",
                                       "planner", "slots", "rows/rank", "imbalance median",
                                       "imbalance p99", "copies", "layer")));
  const std::string to(arrow(style));
  for (size_t i = 0; i < owners.by_default.size(); ++i) {
    const SweepRow &before = owners.by_default[i], &after = owners.suggested[i];
    const auto pair = [&to](double a, double b) {
      return fmt::format("{:.3f} {} {:.3f}", a, to, b);
    };
    const std::string rows =
        before.rows_per_rank > 0 ? count_text(before.rows_per_rank) : "recorded";
    fmt::print("  {:<10} {:>5} {:>9} {:>27} {:>27} {:>19} {:>23}\n", variant_name(before.planner),
               before.replica_slots, rows, pair(before.imbalance.median, after.imbalance.median),
               pair(before.imbalance.p99, after.imbalance.p99),
               fmt::format("{:.1f} {} {:.1f}", before.copies.mean, to, after.copies.mean),
               before.planned_us ? fmt::format("{} {} {}", time_text(before.planned_us), to,
                                               time_text(after.planned_us))
                                 : "-");
  }
}

}  // namespace megaflux::cli
