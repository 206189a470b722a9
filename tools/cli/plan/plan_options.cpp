#include "cli/plan/plan_options.h"

#include <CLI/CLI.hpp>
#include <cmath>

#include "cli/plan/plan_tables.h"
#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"

namespace megaflux::cli {
const Choices& planner_choices() {
  static const Choices choices(planner_names().begin(), planner_names().end());
  return choices;
}

const Choices& objective_choices() {
  static const Choices choices = {"forward", "backward", "cost"};
  return choices;
}

const Choices& dtype_choices() {
  static const Choices choices = {"bf16", "fp32"};
  return choices;
}

DType parse_dtype(const std::string& name) {
  return name == "fp32" ? DType::kFp32 : DType::kBf16;
}

void add_load_options(CLI::App& app, std::string& loads, TraceStep& where) {
  app.add_option("LOADS", loads,
                 "CSV (one line of E totals, or P lines of E rows a source) or a trace (.npz)")
      ->required();
  add_integer(app, "--layer", where.layer, {0, 1 << 20}, "index into the layers of a trace")
      ->default_str("0");
  add_integer(app, "--step", where.step, {0, INT32_MAX}, "step of a trace")->default_str("0");
}

void add_planner_options(CLI::App& app, PlanOptions& options) {
  add_integer(app, "--ranks", options.num_ranks, {1, kMaxRanks}, "ranks of the EP group, P")
      ->group("Planner");
  add_integer(app, "--slots", options.replica_slots, {0, kMaxReplicaSlots},
              "replica slots a rank, s")
      ->group("Planner");
  add_integer(app, "--block-rows", options.block_rows, {1, 1 << 20},
              "rows of a block, the unit of planning")
      ->group("Planner");
  add_choice(app, "--planner", options.planner, planner_choices(), "who plans")
      ->each([&options](const std::string&) { options.is_planner_given = true; })
      ->group("Planner");
  add_choice(app, "--objective", options.objective, objective_choices(),
             "what is least: the slowest rank, that plus lambda a replica, or predicted time")
      ->group("Planner");
  add_integer(app, "--lambda", options.lambda_blocks, {0, 1'000'000},
              "backward: blocks that a replica costs its owner")
      ->each([&options](const std::string&) { options.is_lambda_given = true; })
      ->group("Planner");
  add_decimal(app, "--slack", options.slack, 0, 100,
              "accepted excess of the slowest rank over the bound, 0.01 = 1 %")
      ->group("Planner");
  add_integer(app, "--min-copy-blocks", options.min_copy_blocks, {1, 1 << 20},
              "least blocks of a fresh replica")
      ->group("Planner");
  add_integer(app, "--min-rows-per-replica", options.min_rows_per_replica, {1, INT32_MAX},
              "least rows of any replica")
      ->group("Planner");
  add_integer(app, "--min-forward-rows", options.min_forward_rows, {0, INT32_MAX},
              "fewer rows in the step: fixed placement")
      ->group("Planner");
  add_rival_options(app, options.rivals);
}

void add_table_options(CLI::App& app, PlanOptions& options) {
  add_file(app, "--owners", options.owners_file,
           "owner of each expert, E integers, or what simulate --suggest-owners wrote")
      ->group("Tables");
  app.add_option("--domains", options.domains, "NVLink domains, for example 0-7,8-15")
      ->type_name("RANGES")
      ->group("Tables");
  app.add_option("--inactive", options.inactive, "ranks that compute nothing, for example 3,5-6")
      ->type_name("RANKS")
      ->group("Tables");
  add_file(app, "--base-blocks", options.base_blocks_file,
           "blocks of other work on each rank, P integers")
      ->group("Tables");
  add_file(app, "--speed", options.speed_file, "speed of each rank, P integers, 1024 = full")
      ->group("Tables");
}

void add_resident_option(CLI::App& app, std::string& resident_file) {
  add_file(app, "--resident", resident_file,
           "expert that each slot holds already, P s integers, -1 = none")
      ->group("Tables");
}

void add_cost_options(CLI::App& app, PlanOptions& options) {
  // 0 stands for no shape.
  const auto shown = [](int32_t size) { return size > 0 ? std::to_string(size) : ""; };
  add_integer(app, "--hidden", options.hidden, {1, 65536}, "H, elements of a token")
      ->default_str(shown(options.hidden))
      ->group("Layer and machine");
  add_integer(app, "--inter", options.inter, {1, 65536}, "I, channels of an expert")
      ->default_str(shown(options.inter))
      ->group("Layer and machine");
  add_choice(app, "--dtype", options.dtype, dtype_choices(), "element type of the weights")
      ->group("Layer and machine");
  add_prediction_options(app, options.passes, options.machine);
}

void add_prediction_options(CLI::App& app, std::string& passes, std::string& machine) {
  add_choice(app, "--passes", passes, {"forward", "both"},
             "passes that predictions cover; both for --objective backward, else forward")
      ->group("Layer and machine");
  app.add_option("--machine", machine, "machine that predictions are made for")
      ->default_str(machine)
      ->type_name("h200|FILE")
      ->group("Layer and machine");
}

OptionNames planner_option_names() {
  return {{"num_ranks", "--ranks"}, {"replica_slots", "--slots"}, {"block_rows", "--block-rows"},
          {"planner", "--planner"}, {"hidden", "--hidden"},       {"inter", "--inter"},
          {"dtype", "--dtype"}};
}

CostScope scope_of(const std::string& passes, const std::string& objective) {
  const bool is_both = passes.empty() ? objective == "backward" : passes == "both";
  return is_both ? CostScope::kForwardBackward : CostScope::kForward;
}

void check_lambda(bool is_given, int32_t lambda_blocks, const std::string& objective) {
  MF_CHECK(!is_given || objective == "backward", "--lambda: ", lambda_blocks,
           " is read by --objective backward only, the objective is ", objective);
}

void check_plan_options(const PlanOptions& options, const Choices& planners) {
  check_lambda(options.is_lambda_given, options.lambda_blocks, options.objective);
  check_rivals(options.rivals, planners);
}

std::optional<LayerShape> shape_of(const PlanOptions& options, int32_t num_experts, int32_t topk) {
  MF_CHECK((options.hidden > 0) == (options.inter > 0),
           options.hidden > 0 ? "--inter: missing, --hidden " : "--hidden: missing, --inter ",
           options.hidden > 0 ? options.hidden : options.inter, " needs both");
  if (!options.has_shape()) return std::nullopt;
  LayerShape shape{.num_experts = num_experts,
                   .topk = topk > 0 ? topk : 1,
                   .hidden = options.hidden,
                   .inter = options.inter,
                   .dtype = parse_dtype(options.dtype)};
  check_shape(shape);
  return shape;
}

std::vector<NamedFile> input_files(const PlanOptions& options) {
  return {{"--owners", options.owners_file},
          {"--base-blocks", options.base_blocks_file},
          {"--speed", options.speed_file},
          {"--machine", options.machine}};
}

PlanConfig plan_config_of(const PlanOptions& options, int32_t num_experts, int32_t topk) {
  const int32_t num_ranks = options.num_ranks;
  PlanConfig config;
  config.planner = parse_planner(options.planner);
  config.objective = parse_objective(options.objective);
  config.dims = {.num_experts = num_experts,
                 .num_ranks = num_ranks,
                 .replica_slots = options.replica_slots,
                 .block_rows = options.block_rows};
  config.lambda_blocks = options.lambda_blocks;
  config.slack_ppm = static_cast<int32_t>(std::lround(options.slack * 1e6));
  config.min_copy_blocks = options.min_copy_blocks;
  config.min_rows_per_replica = options.min_rows_per_replica;
  config.min_forward_rows = options.min_forward_rows;
  if (!options.owners_file.empty()) {
    const int32_t layer = options.owners_layer;
    config.owner_of =
        read_owners(options.owners_file, {num_experts, num_ranks}, layer, layer + 1)[0];
  }
  if (!options.domains.empty()) config.domain_of = parse_domains(options.domains, num_ranks);
  if (!options.inactive.empty()) config.active = parse_inactive(options.inactive, num_ranks);
  if (!options.base_blocks_file.empty()) {
    config.base_blocks = read_base_blocks(options.base_blocks_file, num_ranks);
  }
  if (!options.speed_file.empty()) config.speed = read_speeds(options.speed_file, num_ranks);
  config.baselines = baselines_of(options.rivals, config);
  const std::optional<LayerShape> shape = shape_of(options, num_experts, topk);
  MF_CHECK(shape.has_value() || config.objective != Objective::kCost,
           "--objective: cost predicts time and needs the shape, --hidden and --inter are missing");
  const MachineModel machine = read_machine(options.machine);
  // In blocks of block_rows also for planners that count rows: they are rounded up for predictions.
  if (shape) {
    config.cost = make_cost_model(machine, *shape, options.block_rows,
                                  scope_of(options.passes, options.objective));
  }
  return config;
}

}  // namespace megaflux::cli
