#include "cli/simulate/simulate_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <thread>

#include "cli/plan/plan_options.h"
#include "cli/plan/plan_tables.h"
#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"

namespace megaflux::cli {
namespace {

using simulate::SweepConfig;

constexpr int64_t kMaxRowsPerRank = 1 << 24;
constexpr int32_t kMaxThreads = 256;

CLI::Option* add_list(CLI::App& app, const std::string& name, std::string& text,
                      const std::string& help) {
  return app.add_option(name, text, help)->type_name("LIST")->default_str(text);
}

void add_setting_options(CLI::App& app, SimulateOptions& options) {
  add_list(app, "--ranks", options.ranks, "ranks of the EP group, one value or several: 8,16,64")
      ->group("Settings");
  add_list(app, "--slots", options.slots, "replica slots a rank")->group("Settings");
  add_list(app, "--planners", options.planners,
           "all, or some: megaflux,ultraep,eplb (by earlier steps),eplb-exact (by the step itself)")
      ->group("Settings");
  add_list(app, "--rows-per-rank", options.rows_per_rank,
           "counts are scaled to these; 0 = as recorded. Several name the break-even")
      ->group("Settings");
  add_integer(app, "--block-rows", options.block_rows, {1, 1 << 20},
              "rows of a block, the unit of planning and of predictions")
      ->group("Settings");
  add_choice(app, "--objective", options.objective, objective_choices(),
             "what is least: the slowest rank, that plus lambda a replica, or predicted time")
      ->group("Settings");
  add_integer(app, "--lambda", options.lambda_blocks, {0, 1'000'000},
              "backward: blocks that a replica costs its owner")
      ->each([&options](const std::string&) { options.is_lambda_given = true; })
      ->group("Settings");
  add_decimal(app, "--slack", options.slack, 0, 100,
              "accepted excess of the slowest rank over the bound, 0.01 = 1 %")
      ->group("Settings");
  add_integer(
      app, "--history-interval", options.history_interval, {0, 1'000'000'000},
      "steps between placements by history (eplb, lplb); 0 = 1000 or a quarter of the trace")
      ->group("Settings");
  add_file(app, "--owners", options.owners_file,
           "owner of each expert, E integers, or what --suggest-owners wrote")
      ->group("Settings");
}

void add_layer_options(CLI::App& app, SimulateOptions& options) {
  app.add_option("--model", options.model, "layer that bytes and times are predicted for")
      ->type_name("qwen3-30b|qwen3-235b|dsv3|glm4.5|glm4.7|olmoe|H,I,K")
      ->group("Layer and machine");
  add_prediction_options(app, options.passes, options.machine);
}

void add_cell_options(CLI::App& app, SimulateOptions& options) {
  app.add_option("--layers", options.layers, "indices into the trace's layers, for example 0-3,7")
      ->type_name("RANGES")
      ->group("Steps and layers");
  app.add_option("--steps", options.steps, "steps, for example 0-99")
      ->type_name("RANGE")
      ->group("Steps and layers");
  add_integer(app, "--cases", options.num_cases, {0, int64_t{1} << 40},
              "so many steps and layers at most, drawn; 0 = all")
      ->group("Steps and layers");
  add_integer(app, "--seed", options.seed, {0, INT64_MAX}, "seed of that draw")
      ->group("Steps and layers");
}

template <typename Int>
std::vector<Int> list_of(const char* option, const std::string& text, Limits limits) {
  const std::vector<int64_t> values = parse_integers(option, text, limits);
  return {values.begin(), values.end()};
}

}  // namespace

void add_simulate_options(CLI::App& app, SimulateOptions& options) {
  app.add_option("TRACE", options.traces, "traces (.npz) or folders of them")->required();
  add_json(app, options.json_target);
  add_file(app, "--suggest-owners", options.suggest_file,
           "propose an owner table for every layer, write it to FILE and show what it adds");
  add_integer(app, "--threads", options.num_threads, {0, kMaxThreads},
              "threads; 0 = one a core. No figure but planner times depends on them");
  add_setting_options(app, options);
  add_rival_options(app, options.rivals);
  add_layer_options(app, options);
  add_cell_options(app, options);
}

SweepConfig sweep_config_of(const SimulateOptions& options) {
  SweepConfig config;
  config.planners = simulate::parse_variants("--planners", options.planners);
  config.ranks = list_of<int32_t>("--ranks", options.ranks, {1, kMaxRanks});
  config.slots = list_of<int32_t>("--slots", options.slots, {0, kMaxReplicaSlots});
  config.rows_per_rank =
      list_of<int64_t>("--rows-per-rank", options.rows_per_rank, {0, kMaxRowsPerRank});
  const int32_t most_ranks = *std::max_element(config.ranks.begin(), config.ranks.end());
  for (const int64_t rows : config.rows_per_rank) {
    MF_CHECK(rows * most_ranks <= INT32_MAX, "--rows-per-rank: ", rows, " on ", most_ranks,
             " ranks are ", rows * most_ranks, " rows in a step, at most ", INT32_MAX,
             " are supported");
  }
  config.plan.objective = parse_objective(options.objective);
  config.plan.dims.block_rows = options.block_rows;
  check_lambda(options.is_lambda_given, options.lambda_blocks, options.objective);
  config.plan.lambda_blocks = options.lambda_blocks;
  config.plan.slack_ppm = static_cast<int32_t>(std::lround(options.slack * 1e6));
  if (!options.model.empty()) config.model = simulate::parse_model("--model", options.model);
  MF_CHECK(config.model || config.plan.objective != Objective::kCost,
           "--objective: cost predicts time and needs the layer, --model is missing");
  config.machine = read_machine(options.machine);
  config.scope = scope_of(options.passes, options.objective);
  config.history_interval = options.history_interval;
  const auto is_by_history = [](const auto& planner) { return planner.by_history; };
  MF_CHECK(options.history_interval == 0 ||
               std::any_of(config.planners.begin(), config.planners.end(), is_by_history),
           "--history-interval: ", options.history_interval,
           " is read by the planners eplb and lplb only, --planners ", options.planners,
           " has neither");
  const auto cores = static_cast<int32_t>(std::thread::hardware_concurrency());
  config.num_threads =
      options.num_threads > 0 ? options.num_threads : std::clamp(cores, 1, kMaxThreads);
  MF_CHECK(options.owners_file.empty() || config.ranks.size() == 1,
           "--owners: ", options.owners_file, " is for one number of ranks, --ranks ",
           options.ranks, " has ", config.ranks.size());
  MF_CHECK(options.suggest_file.empty() || config.ranks.size() == 1,
           "--suggest-owners: ", options.suggest_file, " takes one number of ranks, --ranks ",
           options.ranks, " has ", config.ranks.size());
  MF_CHECK(options.suggest_file.empty() || options.owners_file.empty(),
           "--suggest-owners: ", options.suggest_file, " starts from the default owners, --owners ",
           options.owners_file, " is not read");
  Choices kinds;
  for (const auto& planner : config.planners) kinds.emplace_back(planner_name(planner.kind));
  check_rivals(options.rivals, kinds);
  return config;
}

void fit_to_trace(const SimulateOptions& options, const Trace& trace, SweepConfig& config) {
  const int32_t num_experts = trace.meta().num_experts;
  if (!options.owners_file.empty()) {
    config.owners =
        read_owners(options.owners_file, {num_experts, config.ranks[0]}, 0, trace.num_layers());
  }
  PlanConfig plan = config.plan;
  plan.dims.num_experts = num_experts;
  plan.dims.num_ranks = config.ranks[0];
  plan.dims.replica_slots = config.slots[0];
  config.plan.baselines = baselines_of(options.rivals, plan);
  MF_CHECK(config.plan.baselines.history.empty(),
           "--rival: history is what simulate takes from the trace, --history-interval steers it");
}

std::vector<simulate::Cell> cells_of(const SimulateOptions& options, const Trace& trace) {
  simulate::CellSelection selection{.num_cases = options.num_cases, .seed = options.seed};
  if (!options.layers.empty()) {
    const Limits limits{0, trace.num_layers() - 1};
    for (const IntegerRange& range : parse_ranges("--layers", options.layers, limits)) {
      for (int64_t layer = range.first; layer <= range.last; ++layer) {
        selection.layers.push_back(static_cast<int32_t>(layer));
      }
    }
    std::sort(selection.layers.begin(), selection.layers.end());
    const auto twice = std::adjacent_find(selection.layers.begin(), selection.layers.end());
    MF_CHECK(twice == selection.layers.end(), "--layers: ", *twice, " stands twice in ",
             options.layers);
  }
  if (!options.steps.empty()) {
    const auto ranges = parse_ranges("--steps", options.steps, {0, trace.num_steps() - 1});
    MF_CHECK(ranges.size() == 1, "--steps: ", options.steps, " has ", ranges.size(),
             " ranges, one is expected");
    selection.first_step = ranges[0].first;
    selection.end_step = ranges[0].last + 1;
  }
  return simulate::select_cells(trace, selection);
}

}  // namespace megaflux::cli
