// `megaflux explain`: why an expert of a step was or was not replicated.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

#include "cli/command.h"
#include "cli/distinct_files.h"
#include "cli/explain/explain_result.h"
#include "cli/load_input.h"
#include "cli/options.h"
#include "cli/plan/plan_options.h"
#include "cli/plan/plan_result.h"
#include "cli/plan/plan_tables.h"
#include "megaflux/base/check.h"

namespace megaflux::cli {
namespace {

struct ExplainCommand {
  PlanOptions plan;
  std::string loads;
  TraceStep where;
  std::string resident_file;
  int32_t expert = -1;
  std::string json_target;
};

explain::StepInput read_input(const ExplainCommand& command, std::string& origin) {
  const PlanOptions& options = command.plan;
  LoadInput input = read_loads(command.loads, command.where, options.num_ranks);
  const int32_t num_experts = input.loads.num_experts();
  MF_CHECK(command.expert < num_experts, "--expert: ", command.expert, " is outside [0, ",
           num_experts - 1, "], the experts of ", command.loads);
  explain::StepInput step{.config = plan_config_of(options, num_experts, input.topk),
                          .loads = std::move(input.loads),
                          .resident = {}};
  if (!command.resident_file.empty()) {
    step.resident =
        read_resident(command.resident_file, num_experts, options.num_ranks, options.replica_slots);
  }
  origin = input.origin;
  return step;
}

ExplainResult compute(const ExplainCommand& command) {
  ExplainResult result;
  result.expert = command.expert;
  result.facts = explain::gather_facts(read_input(command, result.origin));
  const explain::StepFacts& facts = result.facts;
  if (!facts.has_plan()) return result;
  result.rule = explain::step_rule(facts);
  result.bounds = explain::bound_answers(facts);
  for (size_t e = 0; e < facts.experts.size(); ++e) {
    result.experts.push_back(explain::expert_answer(facts, static_cast<int32_t>(e)));
  }
  const auto hottest =
      std::max_element(facts.experts.begin(), facts.experts.end(),
                       [](const auto& a, const auto& b) { return a.rows < b.rows; });
  if (hottest->rows > 0) {
    result.hottest = static_cast<int32_t>(hottest - facts.experts.begin());
  }
  result.slots = explain::slot_counterfactuals(facts);
  const int32_t asked = result.expert >= 0 ? result.expert : result.hottest;
  if (asked >= 0) result.other = explain::expert_counterfactuals(facts, asked);
  return result;
}

ExitCode run_explain(const ExplainCommand& command) {
  check_plan_options(command.plan);
  check_output("--json", command.json_target);
  check_distinct({{"--json", command.json_target}}, {{"LOADS", command.loads}});
  const ExplainResult result = compute(command);
  write_json(command.json_target, explain_json(result));
  if (!result.facts.has_plan()) return report_orphans(result.facts.report);
  if (!is_stdout(command.json_target)) print_explanation(result);
  return ExitCode::kOk;
}

}  // namespace

void add_explain_command(CLI::App& app, Invocation& invocation) {
  auto command = std::make_shared<ExplainCommand>();
  CLI::App* explain = app.add_subcommand(
      "explain", "Why experts of one step were or were not replicated, in words and numbers.");
  add_load_options(*explain, command->loads, command->where);
  add_integer(*explain, "--expert", command->expert, {0, 1 << 20}, "this expert alone, in detail")
      ->default_str("");
  add_json(*explain, command->json_target);
  add_planner_options(*explain, command->plan);
  add_table_options(*explain, command->plan);
  add_resident_option(*explain, command->resident_file);
  add_cost_options(*explain, command->plan);
  explain->footer(
      "Example: megaflux explain trace.npz --layer 18 --step 0\n"
      "         megaflux explain loads.csv --ranks 8 --slots 2 --expert 3 --planner eplb");
  explain->callback(
      [command, &invocation] { invocation.action = [command] { return run_explain(*command); }; });
}

}  // namespace megaflux::cli
