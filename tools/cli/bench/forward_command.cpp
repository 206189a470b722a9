// `megaflux bench forward`: the forward of one layer on GPUs, planned against fixed placement and
// against two ideals.
#include "cli/bench/forward_bench.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "cli/bench/forward_memory.h"
#include "cli/bench/forward_report.h"
#include "cli/command.h"
#include "cli/distinct_files.h"
#include "cli/json_output.h"
#include "cli/option_names.h"
#include "megaflux/base/check.h"
#include "megaflux/base/math.h"
#include "megaflux/layer/mega/mega_config.h"
#include "megaflux/moe/limits.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/trace/route_file.h"
#include "megaflux/trace/trace_file.h"
#include "simulate/distribution.h"

namespace megaflux::cli {
namespace {

struct ForwardOptions {
  GpuBenchOptions bench;
  int32_t samples = 0;  // 0 = by the tokens
  int32_t num_sms = 0;
  int64_t pool_rows = 0;
  int32_t lag_waves = 2;
  bool is_serving = false;
  std::string routes_file;
};

// Few tokens are measured in more samples: their times spread more.
int32_t num_samples(const ForwardOptions& options) {
  if (options.samples > 0) return options.samples;
  return options.bench.tokens <= 8192 ? 20 : 5;
}

// Owners that know the loads: experts by falling rows, each to the rank with the fewest rows so far
// among those that hold fewer than ceil(E / P) experts.
std::vector<int32_t> dealt_owners(const LoadTable& loads, int32_t num_ranks) {
  const std::span<const int32_t> totals = loads.totals();
  std::vector<int32_t> by_rows(totals.size()), owner_of(totals.size());
  std::iota(by_rows.begin(), by_rows.end(), 0);
  std::ranges::stable_sort(by_rows, [&](int32_t a, int32_t b) { return totals[a] > totals[b]; });
  const int32_t most = ceil_div(static_cast<int32_t>(totals.size()), num_ranks);
  std::vector<int64_t> rows(num_ranks);
  std::vector<int32_t> held(num_ranks);
  for (const int32_t expert : by_rows) {
    int32_t least = -1;
    for (int32_t rank = 0; rank < num_ranks; ++rank) {
      if (held[rank] < most && (least < 0 || rows[rank] < rows[least])) least = rank;
    }
    owner_of[expert] = least;
    rows[least] += totals[expert];
    ++held[least];
  }
  return owner_of;
}

PlanConfig fixed_config(const ForwardOptions& options) {
  PlanConfig config;
  config.planner = PlannerKind::kFixed;
  config.dims = {.num_experts = options.bench.num_experts,
                 .num_ranks = options.bench.plan.num_ranks,
                 .block_rows = options.bench.plan.block_rows};
  config.owner_of = contiguous_owners(config.dims.num_experts, config.dims.num_ranks);
  return config;
}

// The second ideal: the loads of all ranks equal, those of experts as routed. The same kernel and
// head over the same routing, with owners that know the loads and every slot that a device allows:
// what is left over for replicas is little, and the portfolio deals it out to the block. The table
// shows the largest load beside tau, which equal loads meet.
PlanConfig second_ideal_config(const ForwardOptions& options, const LoadTable& loads) {
  PlanConfig config = fixed_config(options);
  config.planner = PlannerKind::kMegaflux;
  config.dims.replica_slots = kMaxDeviceSlots;
  config.owner_of = dealt_owners(loads, config.dims.num_ranks);
  return config;
}

// Planned first; what does not differ from it is left out. Nothing moves in the ideals.
std::vector<ForwardSide> make_sides(const ForwardOptions& options, const RouteSet& routes,
                                    const RouteSet& balanced) {
  const PlanOptions& plan = options.bench.plan;
  PlanConfig planned = plan_config_of(plan, options.bench.num_experts, options.bench.topk);
  const PlanConfig fixed = fixed_config(options);
  planned.owner_of = fixed.owner_of;
  std::vector<ForwardSide> sides = {{"planned", {planned, routes.routing}}};
  if (plan.num_ranks > 1) {
    if (planned.planner != PlannerKind::kFixed) {
      if (planned.dims.replica_slots > 0) {
        sides.push_back({"staged", {planned, routes.routing, ReplicaTransfer::kStaged}});
        sides.push_back({"resident", {planned, routes.routing, ReplicaTransfer::kInPlace}});
      }
      sides.push_back({"fixed", {fixed, routes.routing}});
    }
    const LoadTable loads = loads_of(routes.routing, options.bench.num_experts);
    sides.push_back(
        {"second ideal",
         {second_ideal_config(options, loads), routes.routing, ReplicaTransfer::kInPlace}});
  }
  sides.push_back({"ideal", {fixed, balanced.routing}});
  return sides;
}

ForwardBenchCase make_case(const ForwardOptions& options, const std::vector<ForwardSide>& sides) {
  const GpuBenchOptions& bench = options.bench;
  ForwardBenchCase bench_case;
  bench_case.shape = shape_of(bench.plan, bench.num_experts, bench.topk).value();
  bench_case.device_of = deal_ranks(bench.plan.num_ranks, bench.num_devices);
  bench_case.num_sms = options.num_sms;
  bench_case.pool_rows = options.pool_rows;
  bench_case.lag_waves = options.lag_waves;
  bench_case.samples = num_samples(options);
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

// Of each side that is held against planned: side / planned.
std::vector<ForwardRatio> ratios_of(const std::vector<ForwardSide>& sides,
                                    const ForwardBenchFigures& figures) {
  static const std::map<std::string, std::string> kNames = {{"fixed", "skew_speedup"},
                                                            {"staged", "pipelined_over_staged"},
                                                            {"second ideal", "ideal_fraction"}};
  std::vector<ForwardRatio> ratios;
  for (size_t i = 1; i < sides.size(); ++i) {
    const auto name = kNames.find(sides[i].name);
    if (name == kNames.end()) continue;
    ForwardRatio ratio{.name = name->second, .pairs = {}};
    std::vector<double> values;
    for (size_t n = 0; n < figures.runs[i].ms.size(); ++n) {
      ratio.pairs.push_back({figures.runs[i].ms[n], figures.runs[0].ms[n]});
      values.push_back(ratio.pairs.back()[0] / ratio.pairs.back()[1]);
    }
    ratio.value = simulate::percentile(values, 50);
    ratios.push_back(std::move(ratio));
  }
  return ratios;
}

const std::vector<double>* times_of(const std::vector<ForwardSide>& sides,
                                    const ForwardBenchFigures& figures, const std::string& name) {
  for (size_t i = 0; i < sides.size(); ++i) {
    if (sides[i].name == name) return &figures.runs[i].ms;
  }
  return nullptr;
}

// Nothing where no weights move, or where moving them took no time that shows.
std::optional<HiddenFraction> hidden_of(const std::vector<ForwardSide>& sides,
                                        const ForwardBenchFigures& figures) {
  const std::vector<double>& planned = figures.runs[0].ms;
  const std::vector<double>* const resident = times_of(sides, figures, "resident");
  const std::vector<double>* const staged = times_of(sides, figures, "staged");
  if (resident == nullptr || staged == nullptr) return std::nullopt;
  if (figures.runs[0].plan.header().num_copies == 0) return std::nullopt;
  HiddenFraction hidden;
  std::vector<double> exposed, transfers;
  for (size_t n = 0; n < planned.size(); ++n) {
    exposed.push_back(planned[n] - (*resident)[n]);
    transfers.push_back((*staged)[n] - (*resident)[n]);
    hidden.triples.push_back({planned[n], (*resident)[n], transfers.back()});
  }
  const double transfer = simulate::percentile(transfers, 50);
  if (transfer <= 0) return std::nullopt;
  hidden.value = 1 - simulate::percentile(exposed, 50) / transfer;
  return hidden;
}

// layer_ms of every side that has a name among the cases, then the ratios and the hidden fraction.
std::vector<FigureLine> lines_of(const GpuBenchOptions& options, const ForwardReport& report) {
  std::vector<FigureLine> lines;
  for (size_t i = 0; i < report.sides.size(); ++i) {
    if (report.sides[i].run.is_resident()) continue;
    const std::vector<double>& ms = report.figures.runs[i].ms;
    lines.push_back(
        {{.name = "layer_ms", .unit = "ms", .value = simulate::percentile(ms, 50), .samples = &ms},
         case_of_side(options, report.sides[i])});
  }
  for (const ForwardRatio& ratio : report.ratios) {
    lines.push_back({{.name = ratio.name, .unit = "x", .value = ratio.value, .pairs = &ratio.pairs},
                     case_of_side(options, report.sides[0])});
  }
  if (report.hidden) {
    lines.push_back({{.name = "hidden_fraction",
                      .unit = "x",
                      .value = report.hidden->value,
                      .triples = &report.hidden->triples},
                     case_of_side(options, report.sides[0])});
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
}

void write_routes(const ForwardOptions& options, const RouteRequest& request,
                  const RouteSet& routes) {
  if (options.routes_file.empty()) return;
  write_trace(options.routes_file, route_trace(request, routes), TracePacking::kStored);
}

ExitCode run_forward_bench(const ForwardOptions& options,
                           const std::vector<std::string>& arguments) {
  const GpuBenchOptions& bench = options.bench;
  check_serving(options);
  check_output("--routes-out", options.routes_file);
  check_gpu_bench(bench, {{"--routes-out", options.routes_file}});
  check_layer(options);
  const GpuDevice device = require_gpus("bench forward", bench);
  const RouteRequest request = route_request(bench, route_family_from_name(bench.route));
  const RouteSet routes = bench_routes(bench, request);
  const RouteSet balanced = bench_routes(bench, route_request(bench, RouteFamily::kBalanced));
  const std::vector<ForwardSide> sides = make_sides(options, routes, balanced);
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
  const ForwardReport report{.title = case_of_side(bench, sides[0]),
                             .device_name = device.name,
                             .shape = bench_case.shape,
                             .device_of = bench_case.device_of,
                             .route = routes.figures,
                             .sides = sides,
                             .figures = std::move(figures),
                             .ratios = std::move(ratios),
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
              "samples of each placement; 0 = 20 up to 8192 tokens, 5 above");
  add_integer(forward, "--num-sms", options.num_sms, {0, 1024},
              "SMs of a rank; 0 = those of a device, dealt out evenly");
  add_integer(forward, "--pool-rows", options.pool_rows, {0, INT32_MAX},
              "rows that a rank holds; 0 = a quarter above even loads");
  add_integer(forward, "--lag", options.lag_waves, {1, 64}, "waves by which FC2 trails FC1");
  forward.add_flag("--serve", options.is_serving,
                   "measure the plan alone, when a line of standard input says so");
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
      "balanced routing.\n\n"
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
