// `megaflux simulate`: what planners would do to recorded steps.
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/distinct_files.h"
#include "cli/load_input.h"
#include "cli/progress.h"
#include "cli/simulate/simulate_options.h"
#include "cli/simulate/simulate_result.h"
#include "megaflux/base/check.h"
#include "megaflux/moe/owner_table.h"
#include "simulate/case_sampler.h"

namespace megaflux::cli {
namespace {

using simulate::SweepConfig;

// The bar moves a hundred times a sweep at most.
constexpr int kBarSteps = 100;

void show_progress(SweepConfig& config, Progress& progress, const std::string& name) {
  config.on_progress = [&progress, name, shown = -1](int64_t done, int64_t total) mutable {
    const auto step = static_cast<int>(done * kBarSteps / std::max<int64_t>(total, 1));
    if (step == shown || step >= kBarSteps) return;
    shown = step;
    progress.step(step, name);
  };
}

double mean_imbalance_of(const Trace& trace, const std::vector<simulate::Cell>& cells,
                         int32_t layer_idx, const std::vector<int32_t>& owner_of,
                         int32_t num_ranks) {
  simulate::LayerHistory history{.num_experts = trace.meta().num_experts, .rows = {}};
  for (const simulate::Cell& cell : cells) {
    if (cell.layer_idx != layer_idx) continue;
    const LoadTable loads = trace.loads(cell.step, layer_idx, 1);
    history.rows.insert(history.rows.end(), loads.totals().begin(), loads.totals().end());
  }
  return simulate::mean_imbalance(history, owner_of, num_ranks);
}

OwnerComparison compare_owners(const Trace& trace, const std::vector<simulate::Cell>& cells,
                               SweepConfig config) {
  const simulate::OwnerSplit split = simulate::split_for_owners(trace, cells);
  const int32_t num_ranks = config.ranks[0];
  OwnerComparison comparison;
  comparison.is_held_out = split.is_held_out;
  comparison.num_choosing = static_cast<int64_t>(split.chosen_by.size());
  comparison.num_judging = static_cast<int64_t>(split.judged_by.size());
  comparison.owners =
      simulate::suggest_owners(trace, split.chosen_by, num_ranks, config.num_threads);
  const std::vector<int32_t> by_default = contiguous_owners(trace.meta().num_experts, num_ranks);
  for (int32_t layer = 0; layer < trace.num_layers(); ++layer) {
    comparison.fitted_default.push_back(
        mean_imbalance_of(trace, split.chosen_by, layer, by_default, num_ranks));
    comparison.fitted_suggested.push_back(
        mean_imbalance_of(trace, split.chosen_by, layer, comparison.owners[layer], num_ranks));
  }
  comparison.by_default = simulate::sweep(trace, split.judged_by, config);
  config.owners = comparison.owners;
  comparison.suggested = simulate::sweep(trace, split.judged_by, config);
  return comparison;
}

TraceResult simulate_trace(const SimulateOptions& options, const std::string& path,
                           SweepConfig& config) {
  const Trace trace = open_trace("TRACE", path);
  TraceResult result;
  result.name = std::filesystem::path(path).filename().string();
  result.meta = trace.meta();
  result.num_steps = trace.num_steps();
  fit_to_trace(options, trace, config);
  const std::vector<simulate::Cell> cells = cells_of(options, trace);
  result.has_sources = trace.loads(0, 0, config.ranks[0]).has_sources();
  result.num_cells = static_cast<int64_t>(cells.size());
  result.history_interval = simulate::history_interval_of(trace, config);
  result.notes = notes_on(trace, config, cells);
  Progress progress(kBarSteps);
  show_progress(config, progress, result.name);
  result.rows = simulate::sweep(trace, cells, config);
  if (!options.suggest_file.empty()) {
    progress.step(0, result.name + ", choosing owners");
    show_progress(config, progress, result.name + ", judging owners");
    result.owners = compare_owners(trace, cells, config);
  }
  return result;
}

ExitCode run_simulate(const SimulateOptions& options) {
  check_output("--json", options.json_target);
  check_output("--suggest-owners", options.suggest_file);
  MF_CHECK(!is_stdout(options.suggest_file), "--suggest-owners: - is no file");
  SweepConfig config = sweep_config_of(options);
  const std::vector<std::string> files = simulate::trace_files(options.traces);
  MF_CHECK(options.suggest_file.empty() || files.size() == 1,
           "--suggest-owners: ", options.suggest_file, " takes one trace, there are ",
           files.size());
  std::vector<NamedFile> inputs;
  for (const std::string& file : files) inputs.push_back({"TRACE", file});
  check_distinct({{"--json", options.json_target}, {"--suggest-owners", options.suggest_file}},
                 inputs);
  std::vector<TraceResult> results;
  for (const std::string& file : files) results.push_back(simulate_trace(options, file, config));
  if (!is_stdout(options.json_target)) {
    for (const TraceResult& result : results) print_simulation(config, result);
  }
  if (!options.suggest_file.empty()) {
    write_text("--suggest-owners", options.suggest_file,
               owners_json(results[0], config.ranks[0]).dump() + "\n");
  }
  write_json(options.json_target, simulate_json(options, config, results));
  return ExitCode::kOk;
}

}  // namespace

void add_simulate_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* command = app.add_subcommand(
      "simulate", "What planners would do to recorded steps: balance, copies, bytes and time.");
  add_simulate_options(*command, *options);
  command->footer(
      "Example: megaflux simulate trace.npz --ranks 8,16,64 --slots 1,2,4 --model qwen3-30b\n"
      "         megaflux simulate trace.npz --model dsv3 --planners fixed,megaflux,eplb\n"
      "             --rows-per-rank 64,512,4096,32768        names the break-even rows\n"
      "         megaflux simulate trace.npz --suggest-owners owners.json");
  command->callback(
      [options, &invocation] { invocation.action = [options] { return run_simulate(*options); }; });
}

}  // namespace megaflux::cli
