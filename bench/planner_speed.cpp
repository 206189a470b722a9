// How long does a host planner take? One thread; per case the least of several calls, since the
// machine may be busy; then the median over the real traces with E = 256.
//
//   planner_speed TRACES [--commit HASH] [--out FILE]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <string>

#include "megaflux/plan/planner.h"
#include "planner_cases.h"
#include "simulate/distribution.h"

namespace megaflux::bench {
namespace {

using simulate::percentile;

constexpr int32_t kNumExperts = 256;
constexpr int kRepeats = 31;

struct Setting {
  PlannerKind planner;
  Objective objective;
  int32_t num_ranks;
};

CostModel h200_cost() {
  LayerShape shape;
  shape.num_experts = kNumExperts;
  shape.topk = 8;
  shape.hidden = 7168;
  shape.inter = 2048;
  return make_cost_model(machine_model("h200"), shape, 128, CostScope::kForward);
}

double least_us(Planner& planner, const LoadTable& loads) {
  Plan plan;
  PlanReport report;
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i < kRepeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    planner.plan(loads, {}, plan, report);
    const auto end = std::chrono::steady_clock::now();
    least = std::min(least, std::chrono::duration<double, std::micro>(end - begin).count());
  }
  return least;
}

void measure(const std::vector<PlannerCase>& cases, const Setting& setting,
             const Options& options) {
  PlanConfig config;
  config.planner = setting.planner;
  config.objective = setting.objective;
  config.dims = {kNumExperts, setting.num_ranks, 2, 128};
  config.cost = h200_cost();
  const auto planner = make_planner(config);
  std::vector<double> samples;
  for (const PlannerCase& trace_case : cases) {
    if (trace_case.counts.size() != kNumExperts) continue;
    samples.push_back(least_us(*planner, scaled_loads(trace_case, setting.num_ranks, 65536)));
  }
  const double median = percentile(samples, 50);
  const std::string key =
      "op=plan,E=256,P=" + std::to_string(setting.num_ranks) +
      ",s=2,route=real-counts,planner=" + std::string(planner_name(setting.planner)) +
      ",objective=" + std::string(objective_name(setting.objective));
  std::printf("%-80s %zu cases, us: median %.1f p90 %.1f max %.1f\n", key.c_str(), samples.size(),
              median, percentile(samples, 90), percentile(samples, 100));
  std::fflush(stdout);
  if (options.out.empty()) return;
  append_result(options.out, {"plan_host_us", median, "us", key, samples}, options.commit,
                options.command);
}

void run(const Options& options) {
  const std::vector<PlannerCase> cases = read_planner_cases(options.folder);
  for (const int32_t num_ranks : {8, 64}) {
    for (const PlannerKind planner :
         {PlannerKind::kFixed, PlannerKind::kPaper, PlannerKind::kMegaflux, PlannerKind::kQuota}) {
      measure(cases, {planner, Objective::kForward, num_ranks}, options);
    }
    measure(cases, {PlannerKind::kMegaflux, Objective::kBackward, num_ranks}, options);
    measure(cases, {PlannerKind::kMegaflux, Objective::kCost, num_ranks}, options);
  }
}

}  // namespace
}  // namespace megaflux::bench

int main(int argc, char** argv) {
  return megaflux::bench::run_planner_benchmark(argc, argv, megaflux::bench::run);
}
