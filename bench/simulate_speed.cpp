// How many plans a second does a simulation get through on one thread, all figures included?
// Portfolio planner, E = 128, P = 8, s = 2, predictions for a layer of H 2048 and I 768.
//
//   simulate_speed TRACES [--commit HASH] [--out FILE]
//
// TRACES is a folder of .npz traces, of which those with 128 experts are used.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/trace/trace_file.h"
#include "planner_cases.h"
#include "simulate/case_sampler.h"
#include "simulate/distribution.h"
#include "simulate/sweep.h"

namespace megaflux::bench {
namespace {

constexpr int32_t kNumExperts = 128;
constexpr int kRepeats = 15;
// Cells of a sweep: short traces are walked again and again.
constexpr size_t kLeastCells = 2000;

struct Part {
  Trace trace;
  std::vector<simulate::Cell> cells;
};

std::vector<Part> read_parts(const std::string& folder) {
  std::vector<Part> parts;
  for (const std::string& file : simulate::trace_files({folder})) {
    Trace trace = read_trace(file);
    if (trace.meta().num_experts != kNumExperts) continue;
    const std::vector<simulate::Cell> all = simulate::select_cells(trace, {});
    std::vector<simulate::Cell> cells;
    while (cells.size() < kLeastCells) cells.insert(cells.end(), all.begin(), all.end());
    parts.push_back({std::move(trace), std::move(cells)});
  }
  MF_CHECK(!parts.empty(), folder, ": 0 traces with ", kNumExperts, " experts, 1 is needed");
  return parts;
}

double plans_per_second(const std::vector<Part>& parts, const simulate::SweepConfig& config) {
  const auto begin = std::chrono::steady_clock::now();
  size_t plans = 0;
  for (const Part& part : parts) {
    for (const simulate::SweepRow& row : simulate::sweep(part.trace, part.cells, config)) {
      plans += static_cast<size_t>(row.num_cells);
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(plans) / seconds.count();
}

void run(const Options& options) {
  const std::vector<Part> parts = read_parts(options.folder);
  simulate::SweepConfig config;
  config.planners = {{.kind = PlannerKind::kMegaflux}};
  config.model = simulate::parse_model("model", "qwen3-30b");
  for (const int64_t rows_per_rank : {0, 65536}) {
    config.rows_per_rank = {rows_per_rank};
    std::vector<double> samples;
    for (int i = 0; i < kRepeats; ++i) samples.push_back(plans_per_second(parts, config));
    const double median = simulate::percentile(samples, 50);
    std::string key =
        "op=plan,H=2048,I=768,E=128,P=8,s=2,route=traces,planner=megaflux,objective=forward,"
        "exec=cpu";
    if (rows_per_rank > 0) key += ",rows_per_rank=" + std::to_string(rows_per_rank);
    std::printf("%-130s plans/s: median %.0f least %.0f\n", key.c_str(), median,
                simulate::percentile(samples, 0));
    std::fflush(stdout);
    if (options.out.empty()) continue;
    append_result(options.out, {"simulate_plans_per_s", median, "plans/s", key, samples},
                  options.commit, options.command);
  }
}

}  // namespace
}  // namespace megaflux::bench

int main(int argc, char** argv) {
  return megaflux::bench::run_planner_benchmark(argc, argv, megaflux::bench::run);
}
