// How far from the optimum are the plans? The cases of tests/optimum, and what cbc proves of each.
// The table of optima goes to the standard output, the figures to the standard error output and the
// results file. A few minutes.
//
//   planner_optimum DATA [--details] [--commit HASH] [--out FILE]
//
// Example: planner_optimum data --commit $(git rev-parse HEAD)
//          --out bench/results/planner_optimum.jsonl > tests/optimum/optima.csv
#include <algorithm>
#include <cstdio>
#include <string>

#include "megaflux/base/check.h"
#include "optimum/optima_table.h"
#include "planner_cases.h"
#include "simulate/distribution.h"

namespace megaflux::bench {
namespace {

using simulate::percentile;

constexpr int32_t kSecondsAQuestion = 60;

void run(const Options& options) {
  MF_CHECK(optimum::has_cbc(), "cbc is not installed (Debian: coinor-cbc)");
  const std::vector<optimum::OptimumCase> cases = optimum::make_cases(options.folder);
  std::printf("%s\n", std::string(optimum::kOptimaHeader).c_str());
  std::vector<double> ratios;
  int32_t num_good = 0, num_proven = 0, num_optimal = 0;
  for (const optimum::OptimumCase& c : cases) {
    Plan plan;
    PlanReport report;
    make_planner(c.config)->plan(c.loads, {}, plan, report);
    const int64_t finish = static_cast<int64_t>(plan.header().objective);
    const optimum::OptimumBounds bounds =
        optimum::find_optimum(c.config, c.loads, finish, kSecondsAQuestion);
    const std::string line = optimum::to_line(
        {optimum::problem_hash(c), optimum::trivial_bound(c.config, c.loads), bounds, c.name});
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
    num_proven += bounds.is_proven();
    num_optimal += finish == bounds.lower;
    const bool is_good = finish <= optimum::good_finish(bounds.lower);
    num_good += is_good;
    ratios.push_back(double(finish) / double(std::max<int64_t>(1, bounds.lower)));
    if (!is_good || (options.details && finish > bounds.lower)) {
      std::fprintf(stderr, "  %s: %ld, optimum in [%ld, %ld]\n", c.name.c_str(), long(finish),
                   long(bounds.lower), long(bounds.upper));
    }
  }
  const double most = percentile(ratios, 100);
  const double share = double(num_good) / double(cases.size());
  std::fprintf(stderr,
               "%zu cases, %d optima proven; the plan is optimal in %d, good in %d (%.2f %%), at "
               "most %.4f times the optimum\n",
               cases.size(), num_proven, num_optimal, num_good, 100 * share, most);
  if (options.out.empty()) return;
  const std::string key = "op=plan,route=optimum-cases,planner=megaflux,objective=forward";
  append_result(options.out, {"plan_good_share", share, "of cases", key, {share}}, options.commit,
                options.command);
  append_result(options.out, {"plan_over_optimum_max", most, "finish/optimum", key, ratios},
                options.commit, options.command);
}

}  // namespace
}  // namespace megaflux::bench

int main(int argc, char** argv) {
  return megaflux::bench::run_planner_benchmark(argc, argv, megaflux::bench::run);
}
