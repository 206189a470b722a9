// The loads of a trace's cells as a report counts them: on its own number of ranks, scaled if asked
// for.
#pragma once

#include <cstdint>

#include "megaflux/moe/load_table.h"
#include "megaflux/trace/trace.h"

namespace megaflux::viewer {

inline int64_t num_cells(const Trace& trace) {
  return trace.num_steps() * trace.num_layers();
}

// Loads of `cell`, reusing the memory; `rows_per_rank` 0 = as recorded.
void read_cell(const Trace& trace, int64_t cell, int32_t num_ranks, int64_t rows_per_rank,
               LoadTable& loads);

}  // namespace megaflux::viewer
