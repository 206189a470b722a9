// The options that decide a plan, shared by every command that plans.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/distinct_files.h"
#include "cli/load_input.h"
#include "cli/option_names.h"
#include "cli/options.h"
#include "cli/plan/rival_options.h"
#include "megaflux/moe/layer_shape.h"
#include "megaflux/plan/planner.h"

namespace megaflux::cli {

struct PlanOptions {
  int32_t num_ranks = 8;
  int32_t replica_slots = 2;
  int32_t block_rows = 128;
  std::string planner = "megaflux";
  std::string objective = "forward";
  int32_t lambda_blocks = 12;
  double slack = 0;
  int32_t min_copy_blocks = 1;
  int32_t min_rows_per_replica = 1;
  int64_t min_forward_rows = 0;
  int32_t hidden = 0;  // 0 = no shape
  int32_t inter = 0;
  std::string dtype = "bf16";
  std::string passes;  // empty = both passes for the backward objective, else forward
  std::string machine = "h200";
  std::string owners_file;
  int32_t owners_layer = 0;  // whose table is read from a file with one a layer
  std::string domains;       // "0-7,8-15"
  std::string inactive;      // "3" or "3,5-6"
  std::string base_blocks_file;
  std::string speed_file;
  RivalSettings rivals;
  // Given on the command line, not by default.
  bool is_planner_given = false;
  bool is_lambda_given = false;

  bool has_shape() const { return hidden > 0; }
};

const Choices& planner_choices();
const Choices& objective_choices();
const Choices& dtype_choices();
DType parse_dtype(const std::string& name);

// LOADS, --layer and --step: one step of a trace, or a CSV file.
void add_load_options(CLI::App& app, std::string& loads, TraceStep& where);
// --ranks, --slots, --block-rows and what steers the planner, --rival included.
void add_planner_options(CLI::App& app, PlanOptions& options);
// --owners, --domains, --inactive, --base-blocks, --speed.
void add_table_options(CLI::App& app, PlanOptions& options);
// --resident.
void add_resident_option(CLI::App& app, std::string& resident_file);
// --hidden, --inter, --dtype, --passes, --machine: what predictions in bytes and microseconds need.
void add_cost_options(CLI::App& app, PlanOptions& options);
// The last two of them alone.
void add_prediction_options(CLI::App& app, std::string& passes, std::string& machine);

// Fields of the library that these options fill.
OptionNames planner_option_names();

// Throws kBadInput if --lambda is given and the objective does not read it.
void check_lambda(bool is_given, int32_t lambda_blocks, const std::string& objective);
// Options that nothing would read are errors: --lambda without the backward objective, a rival's
// knob without the rival among `planners` (all that the command runs). Throws kBadInput.
void check_plan_options(const PlanOptions& options, const Choices& planners);
inline void check_plan_options(const PlanOptions& options) {
  check_plan_options(options, {options.planner});
}

// Passes that predictions cover.
CostScope scope_of(const std::string& passes, const std::string& objective);

// The layer that predictions are made for; nullopt without --hidden and --inter. `topk` 0 =
// unknown, which no prediction needs.
std::optional<LayerShape> shape_of(const PlanOptions& options, int32_t num_experts, int32_t topk);

// Every file that the options name, for check_distinct.
std::vector<NamedFile> input_files(const PlanOptions& options);

// Reads the files and checks them against E and P. Throws kBadInput naming option, value and limit.
PlanConfig plan_config_of(const PlanOptions& options, int32_t num_experts, int32_t topk);

}  // namespace megaflux::cli
