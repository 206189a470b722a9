// Owner tables from recorded loads: which experts should live together, if nothing is replicated.
//
// Example, E = 4, P = 2, steps {9, 7, 1, 1} and {7, 9, 1, 1}: the default owners {0, 0, 1, 1} put
// 16 of 18 rows on rank 0 in both steps, imbalance 1.78; {0, 1, 1, 0} keeps the two hot experts
// apart, imbalance 1.11.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "megaflux/trace/trace.h"
#include "simulate/sweep.h"

namespace megaflux::simulate {

// Rows of the steps that owners are chosen by, all of one layer.
struct LayerHistory {
  int32_t num_experts = 0;
  std::vector<int32_t> rows;  // [steps, E]
  int64_t num_steps() const { return static_cast<int64_t>(rows.size()) / num_experts; }
};

// Mean over the steps with rows of max / mean rows of a rank; 1 without any.
double mean_imbalance(const LayerHistory& history, std::span<const int32_t> owner_of,
                      int32_t num_ranks);

// [E] owners with floor(E / P) or one more expert a rank, E mod P ranks with one more. Each step
// weighs the same, whatever its rows. Heaviest experts first to the lightest rank with room, by
// their mean share; then experts change places, or move where a rank has room, as long as the mean
// of the largest share of a rank falls, looking at up to 128 steps. Returns the default table if
// that is as good over all steps. Integers and fixed order: the same on every machine.
std::vector<int32_t> suggest_owners(const LayerHistory& history, int32_t num_ranks);

// Which steps choose, and which judge.
struct OwnerSplit {
  std::vector<Cell> chosen_by;
  std::vector<Cell> judged_by;
  bool is_held_out = false;  // judged by steps that had no say
};
// The first half of the steps of `cells` chooses and the rest judges, if the trace is in time order
// and there are two steps or more; else all cells do both.
OwnerSplit split_for_owners(const Trace& trace, const std::vector<Cell>& cells);

// A table for every layer of the trace, [L][E], from the cells that choose; layers without such
// cells keep the default.
std::vector<std::vector<int32_t>> suggest_owners(const Trace& trace, const std::vector<Cell>& cells,
                                                 int32_t num_ranks, int32_t num_threads);

}  // namespace megaflux::simulate
