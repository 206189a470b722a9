#include "cli/bench/forward_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/bench/forward_floors.h"
#include "cli/terminal.h"
#include "cli/text_format.h"
#include "megaflux/plan/plan_stats.h"
#include "simulate/distribution.h"

namespace megaflux::cli {
namespace {

std::string spread_text(const std::vector<double>& ms) {
  return fmt::format("{:.3f} ... {:.3f}", *std::min_element(ms.begin(), ms.end()),
                     *std::max_element(ms.begin(), ms.end()));
}

void print_side(const ForwardReport& report, size_t i, int32_t num_devices) {
  const ForwardSide& side = report.sides[i];
  const ForwardRunFigures& figures = report.figures.runs[i];
  const LoadTable loads = LoadTable::from_routing(side.run.routing, report.shape.num_experts);
  const PlanStats stats = plan_stats(figures.plan, loads, side.run.plan);
  const double ms = simulate::percentile(figures.ms.run, 50);
  int64_t padded = 0;
  for (const int64_t rows : stats.padded_rows) padded += rows;
  const auto rate = [&](int64_t rows) {
    return forward_flops(report.shape, rows) / (ms * 1e9 * num_devices);
  };
  const ForwardFloors floors =
      forward_floors(report.shape, {.plan = figures.plan,
                                    .routing = side.run.routing,
                                    .device_of = report.device_of,
                                    .is_resident = side.run.is_resident()});
  fmt::print(
      "{:<13}{:>9.3f} {:>19} {:>9} {:>7.3f} {:>9} {:>6}/{:<6} {:>4} {:>6.0f} {:>6.0f} "
      "{:>8.3f} {:>8.3f}",
      side.name, ms, spread_text(figures.ms.run), stats.rows.max, stats.rows.imbalance,
      stats.peak_padded_rows, figures.plan.header().max_blocks, stats.tau, stats.num_replicas,
      rate(loads.total_rows()), rate(padded), floors.math_ms, floors.memory_ms);
  if (num_devices > 1) fmt::print(" {:>8.3f} {:>8.3f}", floors.link_rows_ms, floors.link_tokens_ms);
  fmt::print("\n");
}

// What the weights of replicas cost: planned - resident, pair by pair.
void print_exposed(const ForwardReport& report) {
  for (size_t i = 0; i < report.sides.size(); ++i) {
    if (report.sides[i].name != "resident") continue;
    const PairTimes& ms = report.figures.runs[i].ms;
    std::vector<double> us;
    for (size_t n = 0; n < ms.run.size(); ++n) us.push_back(1000 * (ms.first[n] - ms.run[n]));
    fmt::print("weights exposed {:.1f} us\n", simulate::percentile(us, 50));
  }
}

// Whose ratios are not to be had from turns.
void print_long_turns(const ForwardReport& report) {
  for (size_t i = 0; i < report.sides.size(); ++i) {
    const PairTimes& ms = report.figures.runs[i].ms;
    const double together = simulate::percentile(ms.run, 50) + simulate::percentile(ms.first, 50);
    if (together < kLongestTurnsMs) continue;
    fmt::print(
        "{}: a launch of it and one of planned take {:.0f} ms, {:.0f} or more: its ratio may be "
        "off by some per cent\n",
        report.sides[i].name, together, kLongestTurnsMs);
  }
}

}  // namespace

void print_forward(const GpuBenchOptions& options, const ForwardReport& report) {
  const TextStyle style = style_of(STDOUT_FILENO);
  fmt::print("{}\n", paint(style, Colour::kBold, report.title));
  fmt::print("{}, {}, on {} of {}; kappa {:.3f}, max/mean {:.3f}, {} of {} experts active\n",
             plural(options.plan.num_ranks, "rank"), options.is_real() ? "real" : "virtual",
             plural(options.num_devices, "device"), printable(report.device_name),
             report.route.kappa, report.route.imbalance, report.route.active_experts,
             report.shape.num_experts);
  fmt::print(
      "median of {}, each {} launches in turns with planned, head included; weights of planned "
      "replicas are pulled\nmeanwhile, those of staged in a launch ahead, those of resident and of "
      "the second ideal lie in their slots before\n\n",
      plural(static_cast<int64_t>(report.figures.runs[0].ms.run.size()), "sample"),
      report.figures.launches);
  fmt::print("{:<13}{:>9} {:>19} {:>9} {:>7} {:>9} {:>13} {:>4} {:>6} {:>6} {:>8} {:>8}", "", "ms",
             "least ... most", "max rows", "/ mean", "padded", "blocks/tau", "repl", "TFLOPs",
             "padded", "math ms", "mem ms");
  if (options.num_devices > 1) fmt::print(" {:>8} {:>8}", "row link", "tok link");
  fmt::print("\n");
  for (size_t i = 0; i < report.sides.size(); ++i) print_side(report, i, options.num_devices);
  fmt::print("\nTFLOPs: a second and device, of rows and of padded rows. The last {} are floors.\n",
             options.num_devices > 1 ? "four" : "two");
  for (const ForwardRatio& ratio : report.ratios) {
    fmt::print("{} {:.4f}\n", ratio.name, ratio.value);
  }
  print_long_turns(report);
  if (report.gate_plan) fmt::print("gate_plan {}\n", *report.gate_plan);
  print_exposed(report);
  if (report.hidden) fmt::print("hidden_fraction {:.4f}\n", report.hidden->value);
}

}  // namespace megaflux::cli
