// What `bench forward` says to people: a table with a line a placement.
#pragma once

#include <array>
#include <optional>
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

// How much of the transfer of replicas' weights the launch hides behind its work: 1 - (t_with -
// t_free) / t_transfer, of the medians of both differences, since one sample's transfer may be as
// small as its noise. t_with is planned and t_free resident. t_transfer is staged - resident: the
// staged launch moves these bytes and does nothing else. All in ms.
//
// Example: planned 10.1, resident 10, staged 11: 0.1 of 1 shows, 0.9 is hidden.
struct HiddenFraction {
  double value = 0;
  std::vector<std::array<double, 3>> triples;  // [t_with, t_free, t_transfer]
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
  std::optional<HiddenFraction> hidden;  // where the plan moves weights
};

void print_forward(const GpuBenchOptions& options, const ForwardReport& report);

}  // namespace megaflux::cli
