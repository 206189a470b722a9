// From how many rows a rank on replication pays.
//
// Example: at 128 and 512 rows a rank the weights of a replica take longer than the imbalance
// costs, at 2,048 the plan wins; halving [512, 2048] by ratio gives 1024, 724, ...; the answer is
// the least of them that wins, within a sixteenth.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "megaflux/moe/load_table.h"
#include "simulate/step_simulator.h"

namespace megaflux::viewer {

inline constexpr int64_t kLeastBreakEvenRows = 128;
inline constexpr int64_t kMostBreakEvenRows = int64_t{1} << 19;

struct BreakEvenCell {
  LoadTable loads;
  std::vector<int64_t> history = {};  // [E] what a planner by history places by; else empty
};

// Least rows a rank at which the mean predicted time of `cells`, scaled to that many rows, is lower
// with the simulator's planner than with fixed placement; nullopt if there is none up to
// kMostBreakEvenRows or the simulator predicts no time. `topk` 0 = unknown.
std::optional<int64_t> break_even_rows(simulate::StepSimulator& simulator,
                                       std::span<const BreakEvenCell> cells, int32_t topk);

}  // namespace megaflux::viewer
