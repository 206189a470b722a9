// `megaflux bench head`: from router ids to plan and row maps on GPUs.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

#include "cli/bench/bench_record.h"
#include "cli/bench/head_bench.h"
#include "cli/command.h"
#include "cli/gpu/gpu_backend.h"
#include "cli/gpu/plan_on_gpu.h"
#include "cli/json_output.h"
#include "cli/plan/plan_options.h"
#include "cli/terminal.h"
#include "cli/text_format.h"
#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"
#include "megaflux/moe/route_family.h"
#include "simulate/distribution.h"

namespace megaflux::cli {
namespace {

struct HeadOptions {
  PlanOptions plan;
  int32_t num_experts = 128;
  int32_t topk = 8;
  int32_t tokens = 4096;
  int32_t num_devices = 1;
  int32_t replays = 31;
  uint64_t seed = 1;
  std::string route = "zipf-k3";
  std::string commit;
  std::string json_target;
  std::string results_file;
};

// Families that take no recorded counts.
Choices drawn_families() {
  Choices names;
  for (int32_t i = 0; i < kNumRouteFamilies; ++i) {
    const auto family = static_cast<RouteFamily>(i);
    if (!needs_recorded_counts(family)) names.emplace_back(route_family_name(family));
  }
  return names;
}

HeadBenchCase make_case(const HeadOptions& options) {
  const int32_t num_ranks = options.plan.num_ranks;
  HeadBenchCase bench_case{.plan = plan_config_of(options.plan, options.num_experts, options.topk),
                           .topk = options.topk,
                           .device_of = deal_ranks(num_ranks, options.num_devices),
                           .routing = {},
                           .replays = options.replays};
  check_plans_on_gpu(bench_case.plan);
  bench_case.routing = make_routes({.family = route_family_from_name(options.route),
                                    .num_experts = options.num_experts,
                                    .topk = options.topk,
                                    .num_ranks = num_ranks,
                                    .tokens_per_rank = options.tokens,
                                    .seed = options.seed})
                           .routing;
  return bench_case;
}

std::string case_name(const HeadOptions& options) {
  const bool is_real = options.num_devices == options.plan.num_ranks;
  return fmt::format("op=head,E={},K={},P={},T={},s={},route={},planner={},objective={},ranks={}",
                     options.num_experts, options.topk, options.plan.num_ranks, options.tokens,
                     options.plan.replica_slots, options.route, options.plan.planner,
                     options.plan.objective, is_real ? "real" : "virtual");
}

void print_figures(const HeadOptions& options, const GpuDevice& device,
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
  check_plan_options(options.plan);
  check_output("--json", options.json_target);
  check_output("--out", options.results_file);
  check_has_cuda("bench head");
  MF_CHECK(options.num_devices <= options.plan.num_ranks, "--devices: ", options.num_devices,
           " for --ranks ", options.plan.num_ranks, ", a device hosts at least one rank");
  const HeadBenchCase bench_case = make_case(options);
  GpuDevice device;
  for (int32_t ordinal = 0; ordinal < options.num_devices; ++ordinal)
    device = require_gpu("bench head", ordinal);
  const HeadBenchFigures figures = bench_head(bench_case);
  if (!is_stdout(options.json_target)) print_figures(options, device, figures);
  const BenchSource source{.place_key = "gpu_uuid",
                           .place = device.uuid,
                           .commit = options.commit,
                           .command = command_line(arguments)};
  const Figure figure = {"head_us", "us", simulate::percentile(figures.head_us, 50),
                         &figures.head_us};
  write_text("--json", options.json_target, bench_line(figure, case_name(options), source));
  append_result(options.results_file, figure, case_name(options), source);
  return ExitCode::kOk;
}

}  // namespace

void add_head_bench(CLI::App& bench, Invocation& invocation) {
  auto options = std::make_shared<HeadOptions>();
  options->plan.num_ranks = 2;
  CLI::App* head = bench.add_subcommand(
      "head",
      "From router ids to plan and row maps on GPUs, as a line and JSON; needs a build with CUDA.");
  add_json(*head, options->json_target);
  add_integer(*head, "--experts", options->num_experts, {1, kMaxExperts}, "experts, E");
  add_integer(*head, "--topk", options->topk, {1, kMaxExperts}, "experts a token, K");
  add_integer(*head, "--tokens", options->tokens, {1, 1 << 20}, "tokens a rank, T");
  add_integer(*head, "--devices", options->num_devices, {1, kMaxRanks},
              "devices, from ordinal 0 on, that the ranks are dealt to");
  add_choice(*head, "--route", options->route, drawn_families(), "route family of the ids");
  add_integer(*head, "--seed", options->seed, {0, INT64_MAX}, "seed of that draw");
  add_integer(*head, "--replays", options->replays, {1, 10000},
              "samples: replays of a graph of 20 launches");
  head->add_option("--commit", options->commit, "commit to name in the JSON lines")
      ->type_name("HASH");
  head->add_option("--out", options->results_file,
                   "append the figure as a line of bench/results to this file")
      ->type_name("FILE");
  add_planner_options(*head, options->plan);
  add_cost_options(*head, options->plan);
  head->footer(
      "Example: megaflux bench head --ranks 2 --devices 2\n"
      "         megaflux bench head --experts 256 --ranks 8 --devices 2 --tokens 16384 --out "
      "head.jsonl");
  head->callback([options, &invocation] {
    invocation.action = [options, arguments = invocation.arguments] {
      return run_head_bench(*options, arguments);
    };
  });
}

}  // namespace megaflux::cli
