// `megaflux bench plan`: host planner times and plan quality over recorded steps.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <map>
#include <memory>
#include <numeric>

#include "cli/bench/bench_record.h"
#include "cli/bench/plan_bench.h"
#include "cli/command.h"
#include "cli/data_folder.h"
#include "cli/distinct_files.h"
#include "cli/doctor/machine_probe.h"
#include "cli/json_output.h"
#include "cli/plan/plan_options.h"
#include "cli/plan/plan_tables.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "cli/text_format.h"
#include "simulate/case_sampler.h"
#include "simulate/distribution.h"

namespace megaflux::cli {
namespace {

using simulate::percentile;

struct BenchOptions {
  PlanOptions plan;
  std::vector<std::string> traces;
  CaseSelection selection;
  int32_t repeats = 5;
  std::string commit;
  std::string json_target;
};

// Figures by number of experts.
using FiguresByE = std::map<int32_t, BenchFigures>;

FiguresByE measure(const BenchOptions& options) {
  const std::vector<std::string> files = simulate::trace_files(options.traces);
  FiguresByE by_experts;
  std::map<int32_t, std::unique_ptr<Planner>> planners;
  Progress progress(static_cast<int>(files.size()));
  for (size_t i = 0; i < files.size(); ++i) {
    progress.step(static_cast<int>(i), files[i]);
    for (const BenchCase& bench_case : select_cases(files[i], options.selection)) {
      const auto num_experts = static_cast<int32_t>(bench_case.totals.size());
      auto& planner = planners[num_experts];
      if (planner == nullptr) {
        planner = make_planner(plan_config_of(options.plan, num_experts, bench_case.topk));
      }
      BenchFigures& figures = by_experts[num_experts];
      figures.num_experts = num_experts;
      measure_case(*planner, bench_case, options.repeats, figures);
    }
  }
  return by_experts;
}

double mean(const std::vector<double>& samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

void print_table(const BenchOptions& options, const FiguresByE& by_experts) {
  const TextStyle style = style_of(STDOUT_FILENO);
  const PlanOptions& plan = options.plan;
  fmt::print("{}\n\n",
             paint(style, Colour::kBold,
                   fmt::format("planner {}{}objective {}{}{} ranks, {}, one thread", plan.planner,
                               separator(style), plan.objective, separator(style), plan.num_ranks,
                               plural(plan.replica_slots, "slot"))));
  fmt::print("{:>5} {:>6} {:>9} {:>9} {:>9} {:>11} {:>11} {:>8}\n", "E", "cases", "median us",
             "p90 us", "p99 us", "p99 max/tau", "worst", "copies");
  for (const auto& [num_experts, f] : by_experts) {
    fmt::print("{:>5} {:>6} {:>9.1f} {:>9.1f} {:>9.1f} {:>11.4f} {:>11.4f} {:>8.2f}\n", num_experts,
               f.ratio.size(), percentile(f.plan_us, 50), percentile(f.plan_us, 90),
               percentile(f.plan_us, 99), percentile(f.ratio, 99), percentile(f.ratio, 100),
               mean(f.copies));
  }
  for (const auto& [num_experts, f] : by_experts) {
    fmt::print("\nworst for E {}: {}", num_experts, printable(f.worst_case));
  }
  fmt::print("\n");
}

// That plans with costs are predicted for.
std::optional<MachineModel> machine_of(const PlanOptions& plan) {
  if (parse_objective(plan.objective) != Objective::kCost) return std::nullopt;
  return read_machine(plan.machine);
}

std::string json_lines(const BenchOptions& options, const FiguresByE& by_experts,
                       const std::vector<std::string>& arguments) {
  const BenchSource source{.place_key = "cpu",
                           .place = probe_cpu().model,
                           .commit = options.commit,
                           .command = command_line(arguments),
                           .machine = machine_of(options.plan)};
  std::string lines;
  for (const auto& [num_experts, f] : by_experts) {
    const std::string case_name =
        fmt::format("op=plan,E={},P={},s={},route=traces,planner={},objective={},exec=cpu",
                    num_experts, options.plan.num_ranks, options.plan.replica_slots,
                    options.plan.planner, options.plan.objective);
    for (const Figure& figure :
         {Figure{"plan_host_us", "us", percentile(f.plan_us, 50), &f.plan_us},
          Figure{"plan_host_p90_us", "us", percentile(f.plan_us, 90), &f.plan_us},
          Figure{"plan_host_p99_us", "us", percentile(f.plan_us, 99), &f.plan_us},
          Figure{"plan_p99_ratio", "ratio", percentile(f.ratio, 99), &f.ratio},
          Figure{"plan_max_ratio", "ratio", percentile(f.ratio, 100), &f.ratio},
          Figure{"plan_mean_copies", "copies", mean(f.copies), &f.copies},
          Figure{"plan_median_imbalance", "ratio", simulate::percentile(f.imbalance, 50),
                 &f.imbalance},
          Figure{"plan_max_slots", "slots", simulate::percentile(f.slots, 100), &f.slots}}) {
      lines += bench_line(figure, case_name, source);
    }
  }
  return lines;
}

ExitCode run_bench(BenchOptions options, const std::vector<std::string>& arguments) {
  check_plan_options(options.plan);
  check_output("--json", options.json_target);
  std::vector<NamedFile> traces;
  for (const std::string& trace : options.traces) traces.push_back({"TRACE", trace});
  check_distinct({{"--json", options.json_target}}, traces);
  if (options.traces.empty()) options.traces.push_back(data_folder());
  options.selection.num_ranks = options.plan.num_ranks;
  const FiguresByE by_experts = measure(options);
  if (!is_stdout(options.json_target)) print_table(options, by_experts);
  write_text("--json", options.json_target, json_lines(options, by_experts, arguments));
  return ExitCode::kOk;
}

}  // namespace

void add_bench_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* bench = app.add_subcommand("bench", "Measurements.");
  bench->require_subcommand(1);
  bench->footer("Example: megaflux bench plan --planner paper");
  add_head_bench(*bench, invocation);
  add_forward_bench(*bench, invocation);
  CLI::App* plan = bench->add_subcommand(
      "plan", "Host planner times and plan quality over traces, as a table and JSON lines.");
  plan->add_option("TRACE", options->traces, "traces or folders of them; default: those installed");
  add_json(*plan, options->json_target);
  add_integer(*plan, "--rows-per-rank", options->selection.rows_per_rank, {0, 1 << 24},
              "counts are scaled to this many rows a rank; 0 = as recorded");
  add_integer(*plan, "--cases", options->selection.cases_per_file, {1, 1 << 20},
              "steps and layers drawn from each trace at most");
  add_integer(*plan, "--seed", options->selection.seed, {0, INT64_MAX}, "seed of that draw");
  add_integer(*plan, "--repeats", options->repeats, {1, 10000}, "timed calls a case");
  plan->add_option("--commit", options->commit, "commit to name in the JSON lines")
      ->type_name("HASH");
  add_planner_options(*plan, options->plan);
  add_cost_options(*plan, options->plan);
  plan->footer(
      "Example: megaflux bench plan --ranks 8 --slots 2 --planner megaflux\n"
      "         megaflux bench plan data --slack 0.01 --json results.jsonl");
  plan->callback([options, &invocation] {
    invocation.action = [options, arguments = invocation.arguments] {
      return run_bench(*options, arguments);
    };
  });
}

}  // namespace megaflux::cli
