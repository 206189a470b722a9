// `megaflux plan`: loads in, plan out.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "cli/command.h"
#include "cli/distinct_files.h"
#include "cli/gpu/gpu_backend.h"
#include "cli/gpu/plan_on_gpu.h"
#include "cli/options.h"
#include "cli/plan/plan_options.h"
#include "cli/plan/plan_result.h"
#include "cli/plan/plan_tables.h"
#include "megaflux/base/check.h"
#include "megaflux/moe/owner_table.h"

namespace megaflux::cli {
namespace {

struct PlanCommand {
  PlanOptions plan;
  std::string loads;
  TraceStep where;
  std::string resident_file;
  std::string backend = "cpu";
  int32_t device = 0;
  bool is_device_given = false;
  std::string plan_target;
  std::string json_target;
};

Plan fixed_plan(const PlanResult& result) {
  PlanConfig config = result.config;
  config.planner = PlannerKind::kFixed;
  config.objective = Objective::kForward;
  config.dims.block_rows = result.plan.dims().block_rows;
  config.cost.reset();
  Plan plan;
  PlanReport report;
  make_planner(std::move(config))->plan(result.input.loads, {}, plan, report);
  return plan;
}

// Planners that move owners move their weights too.
void add_moved_owners(const PlanConfig& config, const Plan& plan, int64_t expert_bytes,
                      WeightBytes& bytes) {
  const std::vector<int32_t> owner_of =
      config.owner_of.empty() ? contiguous_owners(config.dims.num_experts, config.dims.num_ranks)
                              : config.owner_of;
  for (size_t e = 0; e < owner_of.size(); ++e) {
    if (plan.owner_of()[e] == owner_of[e]) continue;
    bytes.in[plan.owner_of()[e]] += expert_bytes;
    bytes.out[owner_of[e]] += expert_bytes;
  }
}

// Plans the step again on the device, and holds it against what the host's planner decided: the two
// are equal byte for byte, or something is broken.
void plan_on_device(const PlanCommand& command, std::span<const int32_t> resident,
                    PlanResult& result) {
  check_plans_on_gpu(result.config);
  result.device = require_gpu("--backend cuda", command.device).name;
  GpuPlan found = plan_on_gpu(result.config, command.device, result.input.loads, resident);
  const bool is_equal =
      found.plan == result.plan &&
      (found.plan.empty() || (found.gate == result.report.gate && found.tau == result.report.tau));
  if (!is_equal) {
    const auto text = [](const Plan& plan) { return plan.empty() ? "no plan" : hash_text(plan); };
    throw_error(ErrorCode::kInternal, "--backend: the plan of device ", command.device,
                " has hash ", text(found.plan), ", gate ", gate_name(found.gate), ", tau ",
                found.tau, ", and that of the host ", text(result.plan), ", ",
                gate_name(result.report.gate), ", ", result.report.tau);
  }
  result.plan = std::move(found.plan);
}

PlanResult compute(const PlanCommand& command) {
  PlanResult result;
  PlanOptions options = command.plan;
  options.owners_layer = std::max(command.where.layer, 0);
  result.input = read_loads(command.loads, command.where, options.num_ranks);
  const int32_t num_experts = result.input.loads.num_experts();
  result.config = plan_config_of(options, num_experts, result.input.topk);
  std::vector<int32_t> resident;
  if (!command.resident_file.empty()) {
    resident =
        read_resident(command.resident_file, num_experts, options.num_ranks, options.replica_slots);
  }
  const auto planner = make_planner(result.config);
  planner->plan(result.input.loads, resident, result.plan, result.report);
  if (command.backend == "cuda") plan_on_device(command, resident, result);
  if (!result.report.has_plan()) return result;
  result.stats = plan_stats(result.plan, result.input.loads, result.config);
  result.fixed_stats = plan_stats(fixed_plan(result), result.input.loads, result.config);
  if (const auto shape = shape_of(options, num_experts, result.input.topk)) {
    result.bytes = weight_bytes(result.plan, *shape);
    add_moved_owners(result.config, result.plan, shape->expert_bytes(), *result.bytes);
  }
  return result;
}

ExitCode run_plan(const PlanCommand& command) {
  check_plan_options(command.plan);
  if (command.backend == "cuda") check_has_cuda("--backend cuda");
  MF_CHECK(!command.is_device_given || command.backend == "cuda", "--device: ", command.device,
           " is read by --backend cuda only, the backend is ", command.backend);
  check_output("--json", command.json_target);
  check_output("--plan-out", command.plan_target);
  MF_CHECK(!is_stdout(command.json_target) || !is_stdout(command.plan_target),
           "--plan-out: - is taken by --json -, standard output holds one of them");
  std::vector<NamedFile> inputs = input_files(command.plan);
  inputs.push_back({"LOADS", command.loads});
  inputs.push_back({"--resident", command.resident_file});
  check_distinct({{"--json", command.json_target}, {"--plan-out", command.plan_target}}, inputs);
  const PlanResult result = compute(command);
  if (!result.report.has_plan()) {
    write_json(command.json_target, plan_json(result));
    return report_orphans(result.report);
  }
  if (!is_stdout(command.json_target) && !is_stdout(command.plan_target)) print_plan(result);
  const auto bytes = result.plan.bytes();
  write_text("--plan-out", command.plan_target,
             {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  write_json(command.json_target, plan_json(result));
  return ExitCode::kOk;
}

}  // namespace

ExitCode report_orphans(const PlanReport& report) {
  fmt::print(
      stderr, "megaflux: error: no legal plan: the owner of {} with rows is inactive: {}\n",
      report.orphans.size() == 1 ? "1 expert" : fmt::format("{} experts", report.orphans.size()),
      fmt::join(report.orphans, ", "));
  return ExitCode::kCheckFailed;
}

WeightBytes weight_bytes(const Plan& plan, const LayerShape& shape) {
  const PlanDims dims = plan.dims();
  WeightBytes bytes{.in = std::vector<int64_t>(dims.num_ranks),
                    .out = std::vector<int64_t>(dims.num_ranks)};
  const auto slot_expert = plan.slot_expert();
  for (size_t i = 0; i < slot_expert.size(); ++i) {
    if (slot_expert[i] < 0 || plan.slot_resident()[i] != 0) continue;
    bytes.in[i / dims.replica_slots] += shape.expert_bytes();
    bytes.out[plan.owner_of()[slot_expert[i]]] += shape.expert_bytes();
  }
  return bytes;
}

void add_plan_command(CLI::App& app, Invocation& invocation) {
  auto command = std::make_shared<PlanCommand>();
  CLI::App* plan =
      app.add_subcommand("plan", "Which experts to replicate where, for the loads of one step.");
  add_load_options(*plan, command->loads, command->where);
  add_json(*plan, command->json_target);
  add_file(*plan, "--plan-out", command->plan_target, "write the plan's bytes to FILE");
  add_choice(*plan, "--backend", command->backend, {"cpu", "cuda"},
             "where the planner runs; cuda is held against cpu, byte for byte");
  add_integer(*plan, "--device", command->device, {0, 1023},
              "CUDA ordinal of the device of --backend cuda")
      ->each([command = command.get()](const std::string&) { command->is_device_given = true; });
  add_planner_options(*plan, command->plan);
  add_table_options(*plan, command->plan);
  add_resident_option(*plan, command->resident_file);
  add_cost_options(*plan, command->plan);
  plan->footer(
      "Example: megaflux plan loads.csv --ranks 8 --slots 2\n"
      "         megaflux plan loads.csv --backend cuda\n"
      "         megaflux plan trace.npz --layer 18 --objective cost --hidden 2048 --inter 1408");
  plan->callback([command, &invocation] {
    invocation.action = [command] {
      OptionNames names = planner_option_names();
      names.push_back({"num_experts", "LOADS: num_experts"});
      return naming_options(names, [&] { return run_plan(*command); });
    };
  });
}

}  // namespace megaflux::cli
