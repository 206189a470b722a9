// `megaflux bench head`: from router ids to plan and row maps on GPUs.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

#include "cli/bench/gpu_bench_options.h"
#include "cli/bench/head_bench.h"
#include "cli/command.h"
#include "cli/json_output.h"
#include "cli/option_names.h"
#include "cli/terminal.h"
#include "cli/text_format.h"
#include "simulate/distribution.h"

namespace megaflux::cli {
namespace {

struct HeadOptions {
  GpuBenchOptions bench;
  int32_t replays = 31;
};

HeadBenchCase make_case(const HeadOptions& options) {
  const GpuBenchOptions& bench = options.bench;
  return {
      .plan = plan_config_of(bench.plan, bench.num_experts, bench.topk),
      .topk = bench.topk,
      .device_of = deal_ranks(bench.plan.num_ranks, bench.num_devices),
      .routing =
          bench_routes(bench, route_request(bench, route_family_from_name(bench.route))).routing,
      .replays = options.replays};
}

std::string case_name(const GpuBenchOptions& options) {
  return fmt::format("op=head,E={},K={},P={},T={},s={},route={},planner={},objective={},ranks={}",
                     options.num_experts, options.topk, options.plan.num_ranks, options.tokens,
                     options.plan.replica_slots, options.route, options.plan.planner,
                     options.plan.objective, options.is_real() ? "real" : "virtual");
}

void print_figures(const GpuBenchOptions& options, const GpuDevice& device,
                   const HeadBenchFigures& figures) {
  const TextStyle style = style_of(STDOUT_FILENO);
  fmt::print("{}\n", paint(style, Colour::kBold, case_name(options)));
  fmt::print("{} on {} of {}, {} CTAs a rank\n", plural(options.plan.num_ranks, "rank"),
             plural(options.num_devices, "device"), printable(device.name), figures.ctas_per_rank);
  fmt::print(
      "head {:.2f} us: median of {}, {:.2f} ... {:.2f}; every rank's plan is the host's, byte for "
      "byte\n",
      simulate::percentile(figures.head_us, 50), plural(figures.head_us.size(), "replay"),
      *std::min_element(figures.head_us.begin(), figures.head_us.end()),
      *std::max_element(figures.head_us.begin(), figures.head_us.end()));
}

ExitCode run_head_bench(const HeadOptions& options, const std::vector<std::string>& arguments) {
  check_gpu_bench(options.bench);
  const GpuDevice device = require_gpus("bench head", options.bench);
  const HeadBenchFigures figures = bench_head(make_case(options));
  if (!is_stdout(options.bench.json_target)) print_figures(options.bench, device, figures);
  const Figure figure = {.name = "head_us",
                         .unit = "us",
                         .value = simulate::percentile(figures.head_us, 50),
                         .samples = &figures.head_us};
  const bool is_predicted = parse_objective(options.bench.plan.objective) == Objective::kCost;
  write_figures(options.bench, {{figure, case_name(options.bench), is_predicted}},
                gpu_source(options.bench, device, arguments));
  return ExitCode::kOk;
}

}  // namespace

void add_head_bench(CLI::App& bench, Invocation& invocation) {
  auto options = std::make_shared<HeadOptions>();
  options->bench.plan.num_ranks = 2;
  CLI::App* head = bench.add_subcommand(
      "head",
      "From router ids to plan and row maps on GPUs, as a line and JSON; needs a build with CUDA.");
  add_gpu_bench_options(*head, options->bench);
  add_integer(*head, "--replays", options->replays, {1, 10000},
              "samples: replays of a graph of 20 launches");
  head->footer(
      "Example: megaflux bench head --ranks 2 --devices 2\n"
      "         megaflux bench head --experts 256 --ranks 8 --devices 2 --tokens 16384 --out "
      "head.jsonl");
  head->callback([options, &invocation] {
    invocation.action = [options, arguments = invocation.arguments] {
      return naming_options(gpu_bench_names(), [&] { return run_head_bench(*options, arguments); });
    };
  });
}

}  // namespace megaflux::cli
