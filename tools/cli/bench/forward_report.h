// What `bench forward` says to people: a table with a line a placement.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/bench/forward_ratios.h"
#include "cli/bench/forward_sides.h"
#include "cli/bench/gpu_bench_options.h"

namespace megaflux::cli {

struct ForwardReport {
  std::string title;
  std::string device_name;
  LayerShape shape;
  std::vector<int32_t> device_of;  // [P]
  RouteFigures route;
  std::vector<ForwardSide> sides;
  ForwardBenchFigures figures;  // a run a side
  std::vector<ForwardRatio> ratios;
  std::optional<std::string> gate_plan;  // where fixed and ungated were measured
  std::optional<HiddenFraction> hidden;  // where the plan moves weights
};

void print_forward(const GpuBenchOptions& options, const ForwardReport& report);

}  // namespace megaflux::cli
