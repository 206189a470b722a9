#include "viewer/cell_reader.h"

#include "simulate/case_sampler.h"

namespace megaflux::viewer {

void read_cell(const Trace& trace, int64_t cell, int32_t num_ranks, int64_t rows_per_rank,
               LoadTable& loads) {
  const auto layer_idx = static_cast<int32_t>(cell % trace.num_layers());
  trace.read_loads(cell / trace.num_layers(), layer_idx, num_ranks, loads);
  if (rows_per_rank > 0) {
    loads = simulate::scaled_loads(loads, trace.meta().topk, rows_per_rank);
  }
}

}  // namespace megaflux::viewer
