#include "cli/bench/plan_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "cli/load_input.h"
#include "megaflux/base/check.h"
#include "megaflux/base/rng.h"
#include "megaflux/moe/scale_counts.h"
#include "megaflux/trace/trace_file.h"

namespace megaflux::cli {
namespace {

namespace fs = std::filesystem;

// `wanted` distinct numbers of [0, count), ascending.
std::vector<int64_t> draw_places(int64_t count, int64_t wanted, uint64_t seed) {
  std::vector<int64_t> places(static_cast<size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  if (wanted >= count) return places;
  Rng rng(seed);
  for (int64_t i = 0; i < wanted; ++i) {
    std::swap(places[i], places[i + rng.below(static_cast<uint32_t>(count - i))]);
  }
  places.resize(static_cast<size_t>(wanted));
  std::sort(places.begin(), places.end());
  return places;
}

std::vector<int32_t> scaled_totals(const LoadTable& loads, int32_t topk, int64_t total) {
  const auto totals = loads.totals();
  if (total == 0 || loads.total_rows() == 0) return {totals.begin(), totals.end()};
  // No expert gets more rows than there are tokens.
  return scale_counts(totals, total, topk > 0 ? total / topk : total);
}

}  // namespace

std::vector<std::string> trace_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      MF_CHECK(is_trace_path(path), "TRACE: ", path,
               " is no trace, a name that ends in .npz is expected");
      files.push_back(path);
      continue;
    }
    const size_t before = files.size();
    for (const auto& entry : fs::directory_iterator(path)) {
      if (is_trace_path(entry.path().string())) files.push_back(entry.path().string());
    }
    MF_CHECK(files.size() > before, "TRACE: ", path,
             ": 0 traces in this folder, at least 1 expected");
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

std::vector<BenchCase> select_cases(const std::string& file, const CaseSelection& selection) {
  const Trace trace = read_trace(file);
  const std::string name = fs::path(file).filename().string();
  const int64_t num_layers = trace.num_layers();
  const int64_t total = selection.rows_per_rank * selection.num_ranks;
  std::vector<BenchCase> cases;
  for (const int64_t place :
       draw_places(trace.num_steps() * num_layers, selection.cases_per_file, selection.seed)) {
    const auto layer_idx = static_cast<int32_t>(place % num_layers);
    const LoadTable loads = trace.loads(place / num_layers, layer_idx, 1);
    cases.push_back(
        {.totals = scaled_totals(loads, trace.meta().topk, total),
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
  figures.plan_us.push_back(percentile(samples, 50));
  figures.ratio.push_back(ratio);
  figures.copies.push_back(plan.header().num_copies);
}

double percentile(std::vector<double> samples, double percent) {
  std::sort(samples.begin(), samples.end());
  const double rank = std::ceil(percent / 100 * static_cast<double>(samples.size()));
  const auto index = static_cast<size_t>(std::max(rank, 1.0)) - 1;
  return samples[std::min(index, samples.size() - 1)];
}

}  // namespace megaflux::cli
