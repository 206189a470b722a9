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

// Where the ranks stand, and what a reader must know of it.
void print_devices(const TextStyle& style, const RunResult& result) {
  for (const GpuRanks& gpu : result.gpus) {
    const std::string ranks = gpu.are_virtual()
                                  ? fmt::format("ranks {}-{}, virtual", gpu.first_rank,
                                                gpu.first_rank + gpu.num_ranks - 1)
                                  : fmt::format("rank {}", gpu.first_rank);
    print_line(fmt::format("device {}", gpu.ordinal),
               fmt::format("{}{}{}{}{}", printable(gpu.device.name), separator(style),
                           gpu.device.uuid, separator(style), ranks));
  }
  for (const std::string& note : run_notes(result)) print_line("", note);
}

void print_header(const TextStyle& style, const RunResult& result) {
  const Workload& workload = *result.workload;
  const RunOptions& options = *result.options;
  const LayerShape& shape = workload.shape();
  const std::string_view dot = separator(style);
  fmt::print("{}\n", paint(style, Colour::kBold,
                           fmt::format("One MoE layer, {}, over {}",
                                       options.has_backward() ? "forward and backward" : "forward",
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
             fmt::format("{}{}{} a rank{}blocks of {} rows", planner, dot,
                         plural(options.plan.replica_slots, "slot"), dot, options.plan.block_rows));
  print_devices(style, result);
  fmt::print("\n");
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

std::string text(int64_t bytes) {
  return bytes_text(static_cast<uint64_t>(bytes));
}

void print_memory_parts(const RankMemory& memory) {
  const LayerMemory& layer = memory.layer;
  fmt::print("  replicated: row pools {}, results {}, Z {}, packed weights {},\n",
             text(layer.pools), text(layer.results), text(memory.z), text(layer.packed_weights));
  fmt::print("              replica slots {}, their gradients {}, one tile {}, route lists {}\n",
             text(layer.replica_slots), text(layer.gradient_slots), text(layer.tiles),
             text(layer.routes));
}

void print_memory_parts(const GpuFigures& gpu) {
  const MegaMemory& memory = gpu.memory;
  fmt::print("  replicated: heap {} (tokens {}, results {}, signals {}, head {}),\n",
             text(memory.heap() + gpu.head_bytes), text(memory.tokens), text(memory.results),
             text(memory.signals), text(gpu.head_bytes));
  fmt::print(
      "              workspace {} (row pool {}, activations {}, replica slots {}, tables {}),\n",
      text(memory.workspace()), text(memory.rows), text(memory.activations),
      text(memory.replica_slots), text(memory.tables));
  fmt::print("              weights {}\n", text(memory.weights));
}

// What ranks as threads have moved.
void print_traffic(const Execution& fixed, const Execution& replicated) {
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
}

std::string ms_text(int64_t ns) {
  return fmt::format("{:.3f} ms", static_cast<double>(ns) * 1e-6);
}

void print_gpu_times(const Execution& fixed, const Execution& replicated) {
  print_pair("head, slowest device", ms_text(fixed.forward.head_ns),
             ms_text(replicated.forward.head_ns), "second pass, by CUDA events");
  print_pair("forward, slowest device", ms_text(fixed.forward.layer_ns),
             ms_text(replicated.forward.layer_ns), "the same, weights of replicas included");
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

void print_costs(const TextStyle& style, const RunResult& result) {
  const Execution& fixed = result.outcome.fixed;
  const Execution& replicated = result.outcome.replicated;
  const Workload& workload = *result.workload;
  const int64_t ideal_rows = workload.loads().total_rows() / workload.num_ranks();
  fmt::print("\n{}\n", paint(style, Colour::kDim,
                             fmt::format("{:<34}{:>14}{:>14}", "", "fixed", "replicated")));
  const bool is_on_gpu = replicated.gpu.has_value();
  if (is_on_gpu) {
    print_pair("remote rows", count_text(fixed.stats.remote_rows.value_or(0)),
               count_text(replicated.stats.remote_rows.value_or(0)));
  } else {
    print_traffic(fixed, replicated);
  }
  print_pair("peak rows of a rank, padded", count_text(fixed.forward.peak_rows()),
             count_text(replicated.forward.peak_rows()),
             fmt::format("evenly spread: {}", count_text(ideal_rows)));
  print_pair("rounds of the row pool", count_text(most_rounds(fixed)),
             count_text(most_rounds(replicated)),
             fmt::format("pool of {} rows", count_text(replicated.pool_rows)));
  print_pair("memory of a rank", text(fixed.memory_bytes()), text(replicated.memory_bytes()));
  if (is_on_gpu) {
    print_memory_parts(*replicated.gpu);
    print_gpu_times(fixed, replicated);
    return;
  }
  print_memory_parts(replicated.memory);
  print_pair("compute time, slowest rank", slowest_rank(fixed), slowest_rank(replicated),
             "CPU time, measured");
  fmt::print("compute time of each rank, ms\n");
  print_times(fixed);
  print_times(replicated);
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

std::vector<std::string> run_notes(const RunResult& result) {
  std::vector<std::string> notes;
  if (result.gpus.empty()) return notes;
  const bool has_virtual = std::any_of(result.gpus.begin(), result.gpus.end(),
                                       [](const GpuRanks& gpu) { return gpu.are_virtual(); });
  if (has_virtual) {
    notes.emplace_back("virtual ranks share a device: times show no latency between peers");
  }
  if (!result.options->is_forward_only) {
    notes.emplace_back("forward alone: the backward on GPUs comes later");
  }
  return notes;
}

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
