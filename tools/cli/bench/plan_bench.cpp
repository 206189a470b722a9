#include "cli/bench/plan_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "megaflux/plan/plan_stats.h"
#include "megaflux/trace/trace_file.h"
#include "simulate/case_sampler.h"
#include "simulate/distribution.h"

namespace megaflux::cli {

std::vector<BenchCase> select_cases(const std::string& file, const CaseSelection& selection) {
  const Trace trace = read_trace(file);
  const std::string name = std::filesystem::path(file).filename().string();
  const int64_t num_layers = trace.num_layers();
  const int64_t total = selection.rows_per_rank * selection.num_ranks;
  std::vector<BenchCase> cases;
  for (const int64_t place : simulate::draw_places(trace.num_steps() * num_layers,
                                                   selection.cases_per_file, selection.seed)) {
    const auto layer_idx = static_cast<int32_t>(place % num_layers);
    const LoadTable loads = simulate::scaled_loads(trace.loads(place / num_layers, layer_idx, 1),
                                                   trace.meta().topk, total);
    cases.push_back(
        {.totals = {loads.totals().begin(), loads.totals().end()},
         .topk = trace.meta().topk,
         .name = fmt::format("{}, layer index {}, step {}", name, layer_idx, place / num_layers)});
  }
  return cases;
}

void measure_case(Planner& planner, const BenchCase& bench_case, int32_t repeats,
                  BenchFigures& figures) {
  using Clock = std::chrono::steady_clock;
  const std::vector<int64_t> totals(bench_case.totals.begin(), bench_case.totals.end());
  const LoadTable loads = LoadTable::from_totals(planner.config().dims.num_ranks, totals);
  Plan plan;
  PlanReport report;
  planner.plan(loads, {}, plan, report);
  std::vector<double> samples;
  for (int32_t i = 0; i < repeats; ++i) {
    const auto begin = Clock::now();
    planner.plan(loads, {}, plan, report);
    samples.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  const double ratio = report.tau > 0 ? static_cast<double>(plan.header().max_blocks) /
                                            static_cast<double>(report.tau)
                                      : 1.0;
  const bool is_worst = figures.ratio.empty() ||
                        ratio > *std::max_element(figures.ratio.begin(), figures.ratio.end());
  if (is_worst) figures.worst_case = bench_case.name;
  figures.plan_us.push_back(simulate::percentile(samples, 50));
  figures.ratio.push_back(ratio);
  figures.copies.push_back(plan.header().num_copies);
  const PlanStats stats = plan_stats(plan, loads, planner.config());
  figures.imbalance.push_back(stats.rows.imbalance);
  figures.slots.push_back(report.slots_needed);
}

}  // namespace megaflux::cli
