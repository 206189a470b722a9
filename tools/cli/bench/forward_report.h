// What `bench forward` says to people: a table with a line a placement.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "cli/bench/forward_bench.h"
#include "cli/bench/gpu_bench_options.h"

namespace megaflux::cli {

// A run of the case, as people call it.
struct ForwardSide {
  std::string name;  // "planned", "resident", "fixed", "second ideal", "ideal"
  ForwardRun run;
};

// Median of the ratios of two runs, sample by sample.
struct ForwardRatio {
  std::string name;  // "skew_speedup", "ideal_fraction"
  double value = 0;
  std::vector<std::array<double, 2>> pairs;  // [baseline, ours] in ms
};

struct ForwardReport {
  std::string title;
  std::string device_name;
  LayerShape shape;
  std::vector<int32_t> device_of;  // [P]
  RouteFigures route;
  std::vector<ForwardSide> sides;
  ForwardBenchFigures figures;  // a run a side
  std::vector<ForwardRatio> ratios;
};

void print_forward(const GpuBenchOptions& options, const ForwardReport& report);

}  // namespace megaflux::cli
