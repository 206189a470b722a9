#include "cli/bench/gpu_bench_options.h"

#include <CLI/CLI.hpp>

#include "cli/distinct_files.h"
#include "cli/family_counts.h"
#include "cli/gpu/plan_on_gpu.h"
#include "cli/json_output.h"
#include "cli/plan/plan_tables.h"
#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"

namespace megaflux::cli {
namespace {

Choices route_families() {
  Choices names;
  for (int32_t i = 0; i < kNumRouteFamilies; ++i) {
    names.emplace_back(route_family_name(static_cast<RouteFamily>(i)));
  }
  return names;
}

}  // namespace

void add_gpu_bench_options(CLI::App& app, GpuBenchOptions& options) {
  add_json(app, options.json_target);
  add_integer(app, "--experts", options.num_experts, {1, kMaxExperts}, "experts, E");
  add_integer(app, "--topk", options.topk, {1, kMaxTopk}, "experts a token, K");
  add_integer(app, "--tokens", options.tokens, {1, 1 << 20}, "tokens a rank, T");
  add_integer(app, "--devices", options.num_devices, {1, kMaxRanks},
              "devices, from ordinal 0 on, that the ranks are dealt to");
  add_choice(app, "--route", options.route, route_families(), "route family of the ids");
  add_file(app, "--trace", options.trace, "whose counts the real-* families scale");
  add_integer(app, "--seed", options.seed, {0, INT64_MAX}, "seed of the ids");
  app.add_option("--commit", options.commit, "commit to name in the JSON lines")->type_name("HASH");
  app.add_option("--out", options.results_file,
                 "append the figures as lines of bench/results to this file")
      ->type_name("FILE");
  add_planner_options(app, options.plan);
  add_cost_options(app, options.plan);
}

OptionNames gpu_bench_names() {
  OptionNames names = planner_option_names();
  names.insert(names.end(), {{"num_experts", "--experts"},
                             {"topk", "--topk"},
                             {"max_tokens", "--tokens"},
                             {"rows of the step", "--tokens: rows of the step"}});
  return names;
}

void check_gpu_bench(const GpuBenchOptions& options, std::vector<NamedFile> outputs) {
  check_plan_options(options.plan);
  check_output("--json", options.json_target);
  check_output("--out", options.results_file);
  std::vector<NamedFile> inputs = input_files(options.plan);
  inputs.push_back({"--trace", options.trace});
  outputs.insert(outputs.begin(),
                 {{"--json", options.json_target}, {"--out", options.results_file}});
  check_distinct(outputs, inputs);
  check_dealing(options.plan.num_ranks, options.num_devices);
  MF_CHECK(options.trace.empty() || needs_recorded_counts(route_family_from_name(options.route)),
           "--trace: ", options.trace, " is read by the real-* families alone, --route is ",
           options.route);
}

GpuDevice require_gpus(const std::string& command, const GpuBenchOptions& options) {
  check_has_cuda(command);
  check_plans_on_gpu(plan_config_of(options.plan, options.num_experts, options.topk));
  GpuDevice device;
  for (int32_t ordinal = 0; ordinal < options.num_devices; ++ordinal) {
    device = require_gpu(command, ordinal);
  }
  return device;
}

RouteRequest route_request(const GpuBenchOptions& options, RouteFamily family) {
  return {.family = family,
          .num_experts = options.num_experts,
          .topk = options.topk,
          .num_ranks = options.plan.num_ranks,
          .tokens_per_rank = options.tokens,
          .seed = options.seed};
}

RouteSet bench_routes(const GpuBenchOptions& options, const RouteRequest& request) {
  RouteRequest with_counts = request;
  std::vector<int32_t> counts;
  if (needs_recorded_counts(request.family)) {
    counts = family_counts(options.route, options.num_experts, options.trace);
    with_counts.recorded_counts = counts;
  }
  check_request(with_counts);
  try {
    return make_routes(with_counts);
  } catch (const Error& error) {
    throw Error(error.code(), std::string("--route: ") + error.what());
  }
}

BenchSource gpu_source(const GpuBenchOptions& options, const GpuDevice& device,
                       const std::vector<std::string>& arguments) {
  return {.place_key = "gpu_uuid",
          .place = device.uuid,
          .commit = options.commit,
          .command = command_line(arguments),
          .machine = read_machine(options.plan.machine)};
}

void write_figures(const GpuBenchOptions& options, const std::vector<FigureLine>& lines,
                   const BenchSource& source) {
  BenchSource unpredicted = source;
  unpredicted.machine.reset();
  const auto source_of = [&](const FigureLine& line) -> const BenchSource& {
    return line.is_predicted ? source : unpredicted;
  };
  std::string text;
  for (const FigureLine& line : lines) {
    text += bench_line(line.figure, line.case_name, source_of(line));
  }
  write_text("--json", options.json_target, text);
  for (const FigureLine& line : lines) {
    append_result(options.results_file, line.figure, line.case_name, source_of(line));
  }
}

}  // namespace megaflux::cli
