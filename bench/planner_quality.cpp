// How good are the plans? Largest load over tau, copies and slots needed, over the real traces;
// ours beside the rivals that plan every step.
//
//   planner_quality TRACES [--commit HASH] [--out FILE]
//
// Example: planner_quality ../traces --commit $(git rev-parse HEAD)
//          --out bench/results/planner_quality.jsonl
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>

#include "megaflux/plan/planner.h"
#include "planner_cases.h"
#include "simulate/distribution.h"

namespace megaflux::bench {
namespace {

using simulate::percentile;

struct Setting {
  PlannerKind planner;
  Objective objective;
  int32_t num_ranks;
  int32_t slots;
  int32_t slack_ppm = 0;
  int64_t rows_per_rank = 65536;
};

std::string case_key(const Setting& setting) {
  std::string key = "op=plan,P=" + std::to_string(setting.num_ranks) +
                    ",s=" + std::to_string(setting.slots) +
                    ",route=real-counts,planner=" + std::string(planner_name(setting.planner)) +
                    ",objective=" + std::string(objective_name(setting.objective));
  if (setting.rows_per_rank != 65536) {
    key += ",rows_per_rank=" + std::to_string(setting.rows_per_rank);
  }
  if (setting.slack_ppm > 0) key += ",slack=" + std::to_string(setting.slack_ppm) + "ppm";
  return key;
}

// One layer of hidden 7168 and inter 2048, forward, on the built-in machine.
CostModel layer_cost(int32_t num_experts) {
  LayerShape shape;
  shape.num_experts = num_experts;
  shape.topk = 8;
  shape.hidden = 7168;
  shape.inter = 2048;
  return make_cost_model(machine_model("h200"), shape, 128, CostScope::kForward);
}

// The objective over what it would be if every rank finished at tau and copies were free.
double ratio_to_bound(const PlanConfig& config, const Plan& plan, const PlanReport& report) {
  const double objective = double(plan.header().objective);
  if (config.objective != Objective::kCost) return objective / double(report.tau);
  return objective / (double(report.tau) * double(config.cost->block_ps) / 1000);
}

void measure(const std::vector<PlannerCase>& cases, const Setting& setting,
             const Options& options) {
  std::vector<double> ratios, copies;
  int32_t slots_needed = 0;
  for (const PlannerCase& trace_case : cases) {
    PlanConfig config;
    config.planner = setting.planner;
    config.objective = setting.objective;
    config.slack_ppm = setting.slack_ppm;
    config.dims = {static_cast<int32_t>(trace_case.counts.size()), setting.num_ranks, setting.slots,
                   128};
    config.cost = layer_cost(config.dims.num_experts);
    const LoadTable loads = scaled_loads(trace_case, setting.num_ranks, setting.rows_per_rank);
    Plan plan;
    PlanReport report;
    make_planner(config)->plan(loads, {}, plan, report);
    ratios.push_back(ratio_to_bound(config, plan, report));
    copies.push_back(plan.header().num_copies);
    slots_needed = std::max(slots_needed, report.slots_needed);
    if (options.details && ratios.back() > 1.003) {
      std::printf("  %s[%ld] %.4f tau %ld copies %d\n", trace_case.file.c_str(),
                  long(trace_case.index), ratios.back(), long(report.tau),
                  plan.header().num_copies);
    }
  }
  const double p99 = percentile(ratios, 99), most = percentile(ratios, 100);
  const double mean_copies =
      std::accumulate(copies.begin(), copies.end(), 0.0) / double(copies.size());
  const double mean_ratio =
      std::accumulate(ratios.begin(), ratios.end(), 0.0) / double(ratios.size());
  const std::string key = case_key(setting);
  std::printf("%-86s mean %.5f p99 %.5f max %.5f copies %.3f slots %d\n", key.c_str(), mean_ratio,
              p99, most, mean_copies, slots_needed);
  std::fflush(stdout);
  if (options.out.empty()) return;
  append_result(options.out, {"plan_p99_ratio", p99, "max/tau", key, ratios}, options.commit,
                options.command);
  append_result(options.out, {"plan_max_ratio", most, "max/tau", key, {most}}, options.commit,
                options.command);
  append_result(options.out, {"plan_mean_copies", mean_copies, "copies", key, {mean_copies}},
                options.commit, options.command);
  if (slots_needed <= setting.slots) return;
  append_result(options.out,
                {"plan_slots_needed", double(slots_needed), "slots", key, {double(slots_needed)}},
                options.commit, options.command);
}

void run(const Options& options) {
  const std::vector<PlannerCase> cases = read_planner_cases(options.folder);
  std::printf("%zu cases, blocks of 128 rows\n", cases.size());
  constexpr Objective kForward = Objective::kForward;
  for (const PlannerKind planner : {PlannerKind::kMegaflux, PlannerKind::kPaper}) {
    for (const auto& [num_ranks, slots] : {std::pair{8, 2}, {8, 1}, {16, 2}, {64, 2}}) {
      measure(cases, {planner, kForward, num_ranks, slots, 0}, options);
    }
    measure(cases, {planner, kForward, 8, 2, 10'000}, options);
    measure(cases, {planner, kForward, 8, 1, 10'000}, options);
    measure(cases, {planner, kForward, 16, 2, 10'000}, options);
    measure(cases, {planner, kForward, 64, 2, 10'000}, options);
    measure(cases, {planner, Objective::kBackward, 16, 2, 0}, options);
    for (const int64_t rows_per_rank : {2048, 8192, 65536}) {
      measure(cases, {planner, Objective::kBackward, 8, 2, 0, rows_per_rank}, options);
      measure(cases, {planner, Objective::kCost, 8, 2, 0, rows_per_rank}, options);
    }
  }
  for (const PlannerKind rival :
       {PlannerKind::kUltraep, PlannerKind::kMoonep, PlannerKind::kLlep}) {
    for (const int32_t num_ranks : {8, 16, 64}) {
      measure(cases, {rival, kForward, num_ranks, 2}, options);
    }
  }
}

}  // namespace
}  // namespace megaflux::bench

int main(int argc, char** argv) {
  return megaflux::bench::run_planner_benchmark(argc, argv, megaflux::bench::run);
}
