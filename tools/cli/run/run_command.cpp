// `megaflux run`: one MoE layer with fixed placement and with dynamic replication, checked.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <memory>

#include "cli/command.h"
#include "cli/distinct_files.h"
#include "cli/gpu/run_on_gpu.h"
#include "cli/option_names.h"
#include "cli/progress.h"
#include "cli/run/routing_source.h"
#include "cli/run/run_memory.h"
#include "cli/run/run_report.h"
#include "megaflux/base/check.h"
#include "megaflux/plan/legality.h"
#include "megaflux/trace/whole_file.h"

namespace megaflux::cli {
namespace {

Fault fault_of(const std::string& name) {
  const Choices& names = fault_choices();
  const auto found = std::find(names.begin(), names.end(), name);
  // fault_choices() lists the faults in the order of the enumeration, which starts with kNone.
  return found == names.end() ? Fault::kNone : static_cast<Fault>(found - names.begin() + 1);
}

// Above the largest plan: E 4096, P and s 1024.
constexpr uint64_t kMaxPlanBytes = uint64_t{1} << 26;

Plan read_plan(const std::string& path) {
  const std::vector<std::byte> bytes =
      naming_argument("--plan", [&] { return read_whole_file(path, kMaxPlanBytes); });
  return naming_argument("--plan: " + path, [&] { return Plan::from_bytes(bytes); });
}

// Some faults need something to break.
void check_fault(const RunOptions& options, const Workload& workload, const Plan& plan) {
  const Fault fault = fault_of(options.fault);
  const LayerShape& shape = workload.shape();
  MF_CHECK(workload.loads().total_rows() > 0, "--inject: ", options.fault,
           " needs rows, the step has 0");
  MF_CHECK(fault != Fault::kSwapKOrder || shape.topk > 1, "--inject: ", options.fault,
           " needs two results of a token, topk is 1");
  MF_CHECK(fault != Fault::kWrongOwner || shape.num_experts > 1, "--inject: ", options.fault,
           " needs another expert, the layer has 1");
  const bool needs_replica = fault == Fault::kStaleSlot || fault == Fault::kWrongOwner ||
                             fault == Fault::kSkipReplicaGradient;
  MF_CHECK(!needs_replica || plan.num_replicas() > 0, "--inject: ", options.fault,
           " needs a replica, the plan has 0");
  MF_CHECK(fault != Fault::kSkipReplicaGradient || !options.is_forward_only,
           "--inject: ", options.fault, " needs the backward pass, --forward-only leaves it out");
}

ExecutionTask replicated_task(const Workload& workload, const RunOptions& options) {
  ExecutionTask task;
  task.name = "replicated";
  task.plan = plan_config_of(options.plan, workload.shape().num_experts, workload.shape().topk);
  task.fault = fault_of(options.fault);
  if (!options.plan_file.empty()) {
    const Plan plan = read_plan(options.plan_file);
    const PlanDims dims = plan.dims(), expected = task.plan.dims;
    MF_CHECK(dims.num_experts == expected.num_experts && dims.num_ranks == expected.num_ranks &&
                 dims.replica_slots == expected.replica_slots,
             "--plan: ", options.plan_file, ": E ", dims.num_experts, ", P ", dims.num_ranks,
             ", s ", dims.replica_slots, ", the run has E ", expected.num_experts, ", P ",
             expected.num_ranks, ", s ", expected.replica_slots);
    task.outside_plan = naming_argument("--plan: " + options.plan_file, [&] {
      return adopt_plan(plan.bytes(), workload.loads(), task.plan);
    });
  }
  if (task.fault != Fault::kNone) check_fault(options, workload, preview_plan(workload, task));
  return task;
}

ExecutionTask fixed_task(const ExecutionTask& replicated) {
  ExecutionTask task;
  task.name = "fixed";
  task.plan = replicated.plan;
  task.plan.planner = PlannerKind::kFixed;
  task.plan.objective = Objective::kForward;
  task.plan.dims.replica_slots = 0;
  task.plan.cost.reset();
  return task;
}

// What a run executes.
struct Tasks {
  ExecutionTask replicated;
  ExecutionTask fixed;
};

RunOutcome compute(const Workload& workload, const RunOptions& options, Tasks tasks,
                   Progress& progress) {
  Samples samples;
  if (!can_check_all(workload)) samples = draw_samples(workload, options.seed);
  int done = 1;
  const auto on_step = [&](const std::string& name) { progress.step(done++, name); };
  for (ExecutionTask* task : {&tasks.fixed, &tasks.replicated}) {
    // A second pass shows that bits repeat and times a warm one; large layers on the CPU go
    // without.
    task->repeats = options.is_on_gpu() || samples.tokens.empty() ? 2 : 1;
    task->entries = samples.entries;
  }
  RunOutcome outcome;
  outcome.fixed = execute(workload, options, tasks.fixed, on_step);
  outcome.replicated = execute(workload, options, tasks.replicated, on_step);
  if (!outcome.fixed.has_finished() || !outcome.replicated.has_finished()) return outcome;
  on_step("reference");
  outcome.expected =
      compute_expected(workload, outcome.replicated.plan, options.has_backward(), samples);
  outcome.fixed_errors = measure_errors(workload, *outcome.expected, outcome.fixed.outputs);
  outcome.replicated_errors =
      measure_errors(workload, *outcome.expected, outcome.replicated.outputs);
  return outcome;
}

// Refuses what no GPU does before it looks for one, and what does not fit before anything is drawn.
void prepare_gpus(const Workload& workload, const RunOptions& options, const Tasks& tasks,
                  RunResult& result) {
  for (const ExecutionTask* task : {&tasks.fixed, &tasks.replicated}) {
    check_runs_on_gpu(workload, options, *task);
  }
  result.gpus = require_gpus(options);
  for (const ExecutionTask* task : {&tasks.fixed, &tasks.replicated}) {
    check_gpu_memory(workload, options, *task, result.gpus);
  }
}

// What the library calls its fields, as this command calls its options.
OptionNames option_names(const RunOptions& options) {
  const bool is_family = !options.route.empty();
  OptionNames names = planner_option_names();
  names.insert(names.end(), {{"num_experts", is_family ? "--experts" : "--trace: num_experts"},
                             {"topk", is_family ? "--topk" : "--trace: topk"},
                             {"max_tokens", "--tokens: of a rank"},
                             {"rows of the step", "--tokens: rows of the step"},
                             {"pool_rows", "--capacity"}});
  return names;
}

ExitCode run_layer(const RunOptions& options) {
  check_output("--json", options.json_target);
  std::vector<NamedFile> inputs = input_files(options.plan);
  inputs.push_back({"--trace", options.trace});
  inputs.push_back({"--plan", options.plan_file});
  check_distinct({{"--json", options.json_target}}, inputs);
  check_combination(options);
  if (options.is_on_gpu()) check_has_cuda("--backend cuda");
  const auto begin = std::chrono::steady_clock::now();
  RunResult result;
  result.options = &options;
  std::unique_ptr<Workload> workload;
  {
    Progress progress(6);
    progress.step(0, "drawing tokens and weights");
    workload = std::make_unique<Workload>(options);
    result.workload = workload.get();
    Tasks tasks;
    tasks.replicated = replicated_task(*workload, options);
    tasks.fixed = fixed_task(tasks.replicated);
    if (options.is_on_gpu()) {
      prepare_gpus(*workload, options, tasks, result);
    } else {
      require_available("--backend cpu",
                        peak_need(*workload, options, tasks.fixed, tasks.replicated));
    }
    workload->draw_data(options.seed);
    result.outcome = compute(*workload, options, std::move(tasks), progress);
    result.checks = run_checks(*workload, options, result.outcome);
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!is_stdout(options.json_target)) print_run(result);
  write_json(options.json_target, run_json(result));
  if (result.is_good()) return ExitCode::kOk;
  if (is_stdout(options.json_target)) fmt::print(stderr, "megaflux: {}\n", verdict_line(result));
  return ExitCode::kCheckFailed;
}

}  // namespace

void add_run_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand(
      "run", "One MoE layer with fixed placement and with dynamic replication, checked.");
  add_run_options(*command, *options);
  command->footer("Families: " + fmt::format("{}", fmt::join(route_choices(), ", ")) + "\n" +
                  "Faults: " + fmt::format("{}", fmt::join(fault_choices(), ", ")) + "\n" +
                  "        skip-replica-gradient is of the backward, on --backend cpu alone;\n" +
                  "        swap-k-order shows in 1 bf16 element of y in 20,000: take a million,\n" +
                  "        as of --tokens 4096 --hidden 256\n\n" +
                  "Example: megaflux run\n"
                  "         megaflux run --hidden 2048 --inter 1408 --slots 4\n"
                  "         megaflux run --route zipf-k3 --experts 128 --topk 8 --json -\n"
                  "         megaflux run --inject stale-slot        must fail, and say why\n"
                  "         megaflux run --backend cuda --slots 4   the forward, on GPU 0\n"
                  "         megaflux run --backend cuda --inject lost-flag --deadline 2");
  command->callback([options, &invocation] {
    options->plan.owners_layer = trace_layer(*options);
    invocation.action = [options] {
      return naming_options(option_names(*options), [&] { return run_layer(*options); });
    };
  });
}

}  // namespace megaflux::cli
