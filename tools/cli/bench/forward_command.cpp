// `megaflux bench forward`: the forward of one layer on GPUs, planned against fixed placement and
// against two ideals.
#include "cli/bench/forward_bench.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/bench/forward_memory.h"
#include "cli/bench/forward_report.h"
#include "cli/command.h"
#include "cli/distinct_files.h"
#include "cli/json_output.h"
#include "cli/option_names.h"
#include "megaflux/base/check.h"
#include "megaflux/layer/mega/mega_config.h"
#include "megaflux/trace/route_file.h"
#include "megaflux/trace/trace_file.h"
#include "simulate/distribution.h"

namespace megaflux::cli {
namespace {

struct ForwardOptions {
  GpuBenchOptions bench;
  int32_t samples = 0;  // 0 = as many as a case has by itself
  int32_t num_sms = 0;
  int64_t pool_rows = 0;
  int32_t lag_waves = 2;
  bool is_serving = false;
  std::string routes_file;
  std::vector<std::string> sides;  // none = all
};

ForwardBenchCase make_case(const ForwardOptions& options, const std::vector<ForwardSide>& sides) {
  const GpuBenchOptions& bench = options.bench;
  ForwardBenchCase bench_case;
  bench_case.shape = shape_of(bench.plan, bench.num_experts, bench.topk).value();
  bench_case.device_of = deal_ranks(bench.plan.num_ranks, bench.num_devices);
  bench_case.num_sms = options.num_sms;
  bench_case.pool_rows = options.pool_rows;
  bench_case.lag_waves = options.lag_waves;
  if (options.samples > 0) bench_case.samples = options.samples;
  for (const ForwardSide& side : sides) bench_case.runs.push_back(side.run);
  return bench_case;
}

std::string case_of_side(const GpuBenchOptions& options, const ForwardSide& side) {
  const PlanConfig& plan = side.run.plan;
  const std::string route = side.name == "ideal" ? "balanced" : options.route;
  const bool is_staged = side.run.transfer == ReplicaTransfer::kStaged;
  return fmt::format(
      "op=forward,H={},I={},E={},K={},P={},T={},s={},route={},planner={},objective={},exec={},"
      "ranks={}",
      options.plan.hidden, options.plan.inter, options.num_experts, options.topk,
      options.plan.num_ranks, options.tokens, plan.dims.replica_slots, route,
      planner_name(plan.planner), objective_name(plan.objective), is_staged ? "staged" : "mega",
      options.is_real() ? "real" : "virtual");
}

bool is_predicted(const ForwardSide& side) {
  return side.run.plan.objective == Objective::kCost;
}

// layer_ms of every side that has a name among the cases, then the ratios and the hidden fraction.
std::vector<FigureLine> lines_of(const GpuBenchOptions& options, const ForwardReport& report) {
  std::vector<FigureLine> lines;
  for (size_t i = 0; i < report.sides.size(); ++i) {
    if (report.sides[i].run.is_resident()) continue;
    const std::vector<double>& ms = report.figures.runs[i].ms.run;
    lines.push_back(
        {{.name = "layer_ms", .unit = "ms", .value = simulate::percentile(ms, 50), .samples = &ms},
         case_of_side(options, report.sides[i]),
         is_predicted(report.sides[i])});
  }
  for (const ForwardRatio& ratio : report.ratios) {
    lines.push_back({{.name = ratio.name, .unit = "x", .value = ratio.value, .pairs = &ratio.pairs},
                     case_of_side(options, report.sides[0]),
                     is_predicted(report.sides[0])});
  }
  // Ranks that share a device copy inside its memory: that hides behind nothing.
  if (report.hidden && options.is_real()) {
    lines.push_back({{.name = "hidden_fraction",
                      .unit = "x",
                      .value = report.hidden->value,
                      .triples = &report.hidden->triples},
                     case_of_side(options, report.sides[0]),
                     is_predicted(report.sides[0])});
  }
  return lines;
}

// Before anything is drawn. One SM a rank, which any device has, if none are asked for.
void check_layer(const ForwardOptions& options) {
  const GpuBenchOptions& bench = options.bench;
  resolve_config({.shape = shape_of(bench.plan, bench.num_experts, bench.topk).value(),
                  .num_ranks = bench.plan.num_ranks,
                  .replica_slots = bench.plan.replica_slots,
                  .max_tokens = bench.tokens,
                  .pool_rows = options.pool_rows,
                  .num_sms = options.num_sms,
                  .lag_waves = options.lag_waves},
                 std::max(1, options.num_sms));
}

// What the library calls its fields, as this command calls its options.
OptionNames option_names() {
  OptionNames names = gpu_bench_names();
  names.insert(names.end(), {{"pool_rows", "--pool-rows"}, {"num_sms", "--num-sms"}});
  return names;
}

// Nothing that is given is ignored.
void check_serving(const ForwardOptions& options) {
  if (!options.is_serving) return;
  MF_CHECK(options.bench.json_target.empty(), "--json: ", options.bench.json_target,
           " gets nothing with --serve, which answers on standard output");
  MF_CHECK(options.bench.results_file.empty(), "--out: ", options.bench.results_file,
           " gets nothing with --serve, which answers on standard output");
  MF_CHECK(options.samples == 0, "--replays: ", options.samples,
           " is not read with --serve, whose input says how many launches");
  MF_CHECK(options.sides.empty(), "--sides: ", options.sides.front(),
           " is not read with --serve, which measures planned");
}

void write_routes(const ForwardOptions& options, const RouteRequest& request,
                  const RouteSet& routes) {
  if (options.routes_file.empty()) return;
  naming_argument("--routes-out", [&] {
    write_trace(options.routes_file, route_trace(request, routes), TracePacking::kStored);
  });
}

ExitCode run_forward_bench(const ForwardOptions& options,
                           const std::vector<std::string>& arguments) {
  const GpuBenchOptions& bench = options.bench;
  check_serving(options);
  check_output("--routes-out", options.routes_file);
  check_gpu_bench(bench, {{"--routes-out", options.routes_file}});
  MF_CHECK(bench.plan.passes != "both",
           "--passes: both predicts forward and backward, and the forward alone is measured");
  check_sides(bench, options.sides);
  check_layer(options);
  const GpuDevice device = require_gpus("bench forward", bench);
  const RouteRequest request = route_request(bench, route_family_from_name(bench.route));
  const RouteSet routes = bench_routes(bench, request);
  const RouteSet balanced = bench_routes(bench, route_request(bench, RouteFamily::kBalanced));
  const std::vector<ForwardSide> sides =
      make_sides(bench, routes.routing, balanced.routing, options.sides);
  const ForwardBenchCase bench_case = make_case(options, sides);
  const size_t num_runs = options.is_serving ? 1 : bench_case.runs.size();
  require_memory("bench forward", forward_needs(bench_case, num_runs, device.num_sms));
  write_routes(options, request, routes);
  if (options.is_serving) {
    serve_forward(bench_case, std::cin, std::cout);
    return ExitCode::kOk;
  }
  ForwardBenchFigures figures = bench_forward(bench_case);
  std::vector<ForwardRatio> ratios = ratios_of(sides, figures);
  std::optional<HiddenFraction> hidden = hidden_of(sides, figures);
  std::optional<std::string> gate_plan = gate_plan_of(sides, figures);
  const ForwardReport report{.title = case_of_side(bench, sides[0]),
                             .device_name = device.name,
                             .shape = bench_case.shape,
                             .device_of = bench_case.device_of,
                             .route = routes.figures,
                             .sides = sides,
                             .figures = std::move(figures),
                             .ratios = std::move(ratios),
                             .gate_plan = std::move(gate_plan),
                             .hidden = std::move(hidden)};
  if (!is_stdout(bench.json_target)) print_forward(bench, report);
  write_figures(bench, lines_of(bench, report), gpu_source(bench, device, arguments));
  return ExitCode::kOk;
}

void add_options(CLI::App& forward, ForwardOptions& options) {
  options.bench.plan.hidden = 4096;
  options.bench.plan.inter = 1536;
  add_gpu_bench_options(forward, options.bench);
  add_integer(forward, "--replays", options.samples, {0, 10000},
              "samples of each placement, a second or more each; 0 = 5");
  add_integer(forward, "--num-sms", options.num_sms, {0, 1024},
              "SMs of a rank; 0 = those of a device, dealt out evenly");
  add_integer(forward, "--pool-rows", options.pool_rows, {0, INT32_MAX},
              "rows that a rank holds; 0 = a quarter above even loads");
  add_integer(forward, "--lag", options.lag_waves, {1, 64}, "waves by which FC2 trails FC1");
  forward.add_flag("--serve", options.is_serving,
                   "measure the plan alone, when a line of standard input says so");
  forward.add_option("--sides", options.sides, "placements beside planned; default: all there are")
      ->delimiter(',')
      ->type_name("NAME,...");
  forward
      .add_option("--routes-out", options.routes_file,
                  "write the routing as a trace, for others to run")
      ->type_name("FILE");
}

}  // namespace

void add_forward_bench(CLI::App& bench, Invocation& invocation) {
  auto options = std::make_shared<ForwardOptions>();
  CLI::App* forward = bench.add_subcommand("forward",
                                           "The forward of a layer on GPUs, planned, fixed and "
                                           "ideal, as a table and JSON lines; needs a "
                                           "build with CUDA.");
  add_options(*forward, *options);
  forward->footer(
      "planned: as the planner decides, weights pulled meanwhile; staged: in a launch ahead; "
      "resident: "
      "in place before;\nfixed: without replicas; second ideal: equal ranks, experts as routed; "
      "ideal: "
      "balanced routing;\nungated, with --objective cost: replicas whatever they cost.\n\n"
      "Example: megaflux bench forward --ranks 8 --route zipf-k6\n"
      "         megaflux bench forward --ranks 2 --devices 2 --tokens 16384 --out forward.jsonl\n"
      "         echo layer 10 0 | megaflux bench forward --ranks 1 --experts 16 --route balanced "
      "--serve");
  forward->callback([options, &invocation] {
    invocation.action = [options, arguments = invocation.arguments] {
      return naming_options(option_names(), [&] { return run_forward_bench(*options, arguments); });
    };
  });
}

}  // namespace megaflux::cli
