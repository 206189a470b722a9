#include "cli/run/run_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "cli/load_bars.h"
#include "cli/plan/plan_result.h"
#include "cli/terminal.h"
#include "cli/text_format.h"

namespace megaflux::cli {
namespace {

constexpr size_t kMaxShownRanks = 16;

void print_line(const std::string& label, const std::string& text) {
  fmt::print("{:<11}{}\n", label, text);
}

void print_header(const TextStyle& style, const RunResult& result) {
  const Workload& workload = *result.workload;
  const RunOptions& options = *result.options;
  const LayerShape& shape = workload.shape();
  const std::string_view dot = separator(style);
  fmt::print("{}\n", paint(style, Colour::kBold,
                           fmt::format("One MoE layer, {}, over {}",
                                       options.is_forward_only ? "forward" : "forward and backward",
                                       plural(workload.num_ranks(), "rank"))));
  print_line("routing", printable(workload.origin()));
  print_line("",
             fmt::format("{} tokens{}{} rows{}kappa {:.2f}", count_text(workload.num_tokens()), dot,
                         count_text(workload.loads().total_rows()), dot, kappa(workload.loads())));
  print_line("layer", fmt::format("E {}  K {}  H {}  I {}{}{}{}{}", shape.num_experts, shape.topk,
                                  shape.hidden, shape.inter, dot, dtype_name(shape.dtype), dot,
                                  result.outcome.fixed.gemm));
  const std::string planner =
      options.plan_file.empty()
          ? fmt::format("{} ({})", options.plan.planner, options.plan.objective)
          : options.plan_file;
  print_line("planner",
             fmt::format("{}{}{} a rank{}blocks of {} rows\n", planner, dot,
                         plural(options.plan.replica_slots, "slot"), dot, options.plan.block_rows));
}

void print_balance(const TextStyle& style, const RunResult& result) {
  const Execution& fixed = result.outcome.fixed;
  const Execution& replicated = result.outcome.replicated;
  print_load_bars(
      style,
      {.unit = "rows", .before = fixed.stats.load_rows, .after = replicated.stats.load_rows});
  const std::vector<int64_t> in_slots = rows_from_slots(replicated);
  const std::string after = fmt::format("{:.2f}", replicated.stats.rows.imbalance);
  fmt::print("\nimbalance  {:.2f} {} {}{}{}, computing {} rows\n", fixed.stats.rows.imbalance,
             arrow(style), paint(style, Colour::kBold, after), separator(style),
             plural(replicated.stats.num_replicas, "replica"),
             count_text(std::accumulate(in_slots.begin(), in_slots.end(), int64_t{0})));
  print_replicas(replicated.plan, result.workload->loads());
}

// A fact of both executions side by side.
void print_pair(const std::string& name, const std::string& fixed, const std::string& replicated,
                const std::string& note = "") {
  fmt::print("{:<34}{:>14}{:>14}{}\n", name, fixed, replicated, note.empty() ? "" : "   " + note);
}

std::string bytes_pair(const Execution& execution, Traffic kind) {
  return bytes_text(static_cast<uint64_t>(moved_bytes(execution, kind)));
}

int32_t most_rounds(const Execution& execution) {
  int32_t rounds = 0;
  for (const RankReport& rank : execution.forward.ranks) rounds = std::max(rounds, rank.rounds);
  return rounds;
}

std::string slowest_rank(const Execution& execution) {
  const std::vector<int64_t> ns = compute_ns(execution);
  return seconds_text(static_cast<double>(*std::max_element(ns.begin(), ns.end())) * 1e-9);
}

void print_memory_parts(const RankMemory& memory) {
  const auto text = [](int64_t bytes) { return bytes_text(static_cast<uint64_t>(bytes)); };
  const LayerMemory& layer = memory.layer;
  fmt::print("  replicated: row pools {}, results {}, Z {}, packed weights {},\n",
             text(layer.pools), text(layer.results), text(memory.z), text(layer.packed_weights));
  fmt::print("              replica slots {}, their gradients {}, one tile {}, route lists {}\n",
             text(layer.replica_slots), text(layer.gradient_slots), text(layer.tiles),
             text(layer.routes));
}

void print_costs(const TextStyle& style, const RunResult& result) {
  const Execution& fixed = result.outcome.fixed;
  const Execution& replicated = result.outcome.replicated;
  const Workload& workload = *result.workload;
  const int64_t ideal_rows = workload.loads().total_rows() / workload.num_ranks();
  fmt::print("\n{}\n", paint(style, Colour::kDim,
                             fmt::format("{:<34}{:>14}{:>14}", "", "fixed", "replicated")));
  print_pair("rows sent to other ranks", bytes_pair(fixed, Traffic::kDispatch),
             bytes_pair(replicated, Traffic::kDispatch));
  print_pair("results sent back", bytes_pair(fixed, Traffic::kCombine),
             bytes_pair(replicated, Traffic::kCombine));
  print_pair("weights copied into slots", bytes_pair(fixed, Traffic::kWeights),
             bytes_pair(replicated, Traffic::kWeights));
  if (replicated.has_backward()) {
    print_pair("replica gradients reduced", bytes_pair(fixed, Traffic::kGradients),
               bytes_pair(replicated, Traffic::kGradients));
  }
  print_pair("peak rows of a rank, padded", count_text(fixed.forward.peak_rows()),
             count_text(replicated.forward.peak_rows()),
             fmt::format("evenly spread: {}", count_text(ideal_rows)));
  print_pair("rounds of the row pool", count_text(most_rounds(fixed)),
             count_text(most_rounds(replicated)),
             fmt::format("pool of {} rows", count_text(replicated.pool_rows)));
  print_pair("memory of a rank", bytes_text(static_cast<uint64_t>(fixed.memory.total())),
             bytes_text(static_cast<uint64_t>(replicated.memory.total())));
  print_memory_parts(replicated.memory);
  print_pair("compute time, slowest rank", slowest_rank(fixed), slowest_rank(replicated),
             "CPU time, measured");
}

void print_times(const Execution& execution) {
  const std::vector<int64_t> ns = compute_ns(execution);
  std::string line;
  for (size_t rank = 0; rank < std::min(ns.size(), kMaxShownRanks); ++rank) {
    const double ms = static_cast<double>(ns[rank]) * 1e-6;
    line += fmt::format("{:>8.{}f}", ms, ms < 1000 ? 1 : 0);
  }
  if (ns.size() > kMaxShownRanks) line += "  ...";
  fmt::print("  {:<12}{}\n", execution.name, line);
}

bool has_error(const Check& check) {
  return check.value && check.limit && *check.limit > 0;
}

// ": fixed 0.0036, replicated 0.0036, accepted 0.03", or nothing where a check measures nothing.
std::string error_text(const Check& fixed, const Check* replicated) {
  if (!has_error(fixed)) return {};
  std::string text = fmt::format(": fixed {:.2g}", *fixed.value);
  if (replicated != nullptr) text += fmt::format(", replicated {:.2g}", *replicated->value);
  return text + fmt::format(", accepted {:.2g}", *fixed.limit);
}

const Check* find_check(const std::vector<Check>& checks, const std::string& name) {
  const auto found = std::find_if(checks.begin(), checks.end(),
                                  [&](const Check& check) { return check.name == name; });
  return found == checks.end() ? nullptr : &*found;
}

// Checks of both placements share a line.
void print_checks(const TextStyle& style, const std::vector<Check>& checks) {
  fmt::print("\n{}\n", paint(style, Colour::kDim, "checks, with relative errors"));
  for (const Check& check : checks) {
    const std::string prefix = "replicated-";
    if (check.name.starts_with("fixed-")) {
      const Check* other = find_check(checks, prefix + check.name.substr(6));
      const bool holds = check.holds && (other == nullptr || other->holds);
      fmt::print("  {} {}{}\n", verdict_sign(style, holds), check.what, error_text(check, other));
    } else if (!check.name.starts_with(prefix)) {
      fmt::print("  {} {}\n", verdict_sign(style, check.holds), check.what);
    }
  }
  for (const Check& check : checks) {
    if (check.holds) continue;
    fmt::print("  {} {}\n", paint(style, Colour::kRed, check.name + ":"), check.detail);
  }
}

}  // namespace

std::vector<int64_t> compute_ns(const Execution& execution) {
  std::vector<int64_t> ns;
  for (size_t rank = 0; rank < execution.forward.ranks.size(); ++rank) {
    ns.push_back(execution.forward.ranks[rank].compute_cpu_ns);
    if (execution.has_backward()) ns.back() += execution.backward.ranks[rank].compute_cpu_ns;
  }
  return ns;
}

int64_t moved_bytes(const Execution& execution, Traffic kind) {
  return execution.forward.total(kind) +
         (execution.has_backward() ? execution.backward.total(kind) : 0);
}

std::vector<int64_t> rows_from_slots(const Execution& execution) {
  std::vector<int64_t> rows;
  for (const RankReport& rank : execution.forward.ranks) rows.push_back(rank.rows_from_slots);
  return rows;
}

void print_run(const RunResult& result) {
  const TextStyle style = style_of(STDOUT_FILENO);
  const RunOutcome& outcome = result.outcome;
  print_header(style, result);
  if (outcome.fixed.has_finished() && outcome.replicated.has_finished()) {
    print_balance(style, result);
    print_costs(style, result);
    fmt::print("compute time of each rank, ms\n");
    print_times(outcome.fixed);
    print_times(outcome.replicated);
  }
  print_checks(style, result.checks);
  fmt::print("\n{} {}\n", verdict_sign(style, result.is_good()), verdict_line(result));
}

std::string verdict_line(const RunResult& result) {
  std::vector<std::string> failed;
  for (const Check& check : result.checks) {
    if (!check.holds) failed.push_back(check.name);
  }
  const std::string& fault = result.options->fault;
  if (failed.empty()) {
    if (!fault.empty()) return fmt::format("No check noticed the injected fault {}.", fault);
    return fmt::format("All {} checks hold. {}", result.checks.size(),
                       seconds_text(result.seconds));
  }
  const std::string cause =
      fault.empty() ? "" : fmt::format(" The injected fault {} was caught.", fault);
  return fmt::format("{} of {} checks failed: {}.{}", failed.size(), result.checks.size(),
                     fmt::join(failed, ", "), cause);
}

}  // namespace megaflux::cli
