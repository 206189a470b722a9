// What the rows of a sweep mean when they are held against each other.
#pragma once

#include <cstdint>
#include <vector>

#include "megaflux/moe/layer_shape.h"
#include "simulate/sweep.h"

namespace megaflux::simulate {

// slot_bytes, slot_memory_bytes and unshared_memory_bytes. Example: 2 slots of 9.4 MB and 48 layers
// take 18.9 MB a rank if the layers share them, 906 MB if each has its own.
void fill_memory(const LayerShape& shape, int32_t num_layers, SweepRow& row);

// speedup and both shares, from the mean times.
void fill_shares(SweepRow& row);

// is_best: in each (ranks, rows_per_rank), the row with the least mean predicted time, or without
// predictions the least p99 imbalance to three decimals; then fewest mean copies, fewest slots,
// first planner. Rows over the budget and those that move owners in every step do not stand.
void mark_best(std::vector<SweepRow>& rows);

// break_even_rows of each (planner, ranks, slots).
void fill_break_even(std::vector<SweepRow>& rows);

}  // namespace megaflux::simulate
