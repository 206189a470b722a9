// What the times of `bench forward` say about planned placement.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/forward_sides.h"

namespace megaflux::cli {

// Ratio of two runs, a side / planned.
struct ForwardRatio {
  std::string name;
  double value = 0;                          // the median of the pairs' ratios
  std::vector<std::array<double, 2>> pairs;  // [side, planned in turns with it] in ms
};

// How much of the transfer of replicas' weights the launch hides behind its work: 1 - (t_with -
// t_free) / t_transfer, of the medians of both differences, since one sample's transfer may be as
// small as its noise. t_with is planned and t_free resident. t_transfer is staged - resident, each
// less planned beside it: the staged launch moves these bytes and does nothing else. All in ms.
//
// Example: planned 10.1, resident 10, staged 11: 0.1 of 1 shows, 0.9 is hidden.
struct HiddenFraction {
  double value = 0;
  std::vector<std::array<double, 3>> triples;  // [t_with, t_free, t_transfer]
};

// "self_ratio" of planned / planned: how far launches of one rig differ. Then, of each side that
// has such a name, "skew_speedup" of fixed, "pipelined_over_staged", "ideal_fraction" of the second
// ideal, "balanced_fraction" of ideal; and "gate_ratio", the lower one of fixed / planned and
// ungated / planned: 1 is a gate that decides as hindsight does; the
// lower one of two is a little below what either is.
std::vector<ForwardRatio> ratios_of(std::span<const ForwardSide> sides,
                                    const ForwardBenchFigures& figures);

// Whose plan the gate has taken, where fixed and ungated were measured: "fixed, the better one", by
// its ratio; "ungated, not the better one"; or "of its own". Of the better one's plan,
// gate_ratio says what the head costs and how far two measurements of one plan differ.
std::optional<std::string> gate_plan_of(std::span<const ForwardSide> sides,
                                        const ForwardBenchFigures& figures);

// Nothing where no weights move, or where moving them took no time that shows.
std::optional<HiddenFraction> hidden_of(std::span<const ForwardSide> sides,
                                        const ForwardBenchFigures& figures);

}  // namespace megaflux::cli
