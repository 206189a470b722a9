// Builds the table of units of a rank's work list, once a launch, before its tasks are given out.
#pragma once

#include "megaflux/base/block_scan_device.cuh"
#include "megaflux/comm/signal_device.cuh"
#include "megaflux/layer/mega/forward_params_cuda.h"

namespace megaflux::mega {

// All threads of one CTA; `shared` is scratch of kMaxCtaWarps words.
__device__ inline void build_units(const DeviceRank& self, const ForwardParams& params,
                                   const MegaRank& rank, uint64_t* shared) {
  const WorkListHeader& header = *self.own(params.planned.work);
  const Part* const parts = self.own(params.planned.parts);
  Unit* const units = at_base(rank.space, params.space.units);
  const auto num_threads = static_cast<int32_t>(blockDim.x);
  int32_t base = 0;
  for (int32_t first = 0; first < header.num_parts; first += num_threads) {
    const int32_t index = first + static_cast<int32_t>(threadIdx.x);
    Part part;
    if (index < header.num_parts) part = parts[index];
    const int32_t num_units = num_units_of(part.num_tiles, params.unit_tiles);
    uint64_t before[1] = {static_cast<uint64_t>(num_units)}, total[1];
    scan_exclusive(before, total, num_threads, shared);
    const int32_t place = base + static_cast<int32_t>(before[0]);
    for (int32_t u = 0; u < num_units; ++u) units[place + u] = unit_of(part, num_units, u);
    base += static_cast<int32_t>(total[0]);
  }
  if (threadIdx.x == 0) {
    units[base] = {.first_tile = header.num_tiles};
    *at_base(rank.space, params.space.num_units) = base;
  }
}

// Any thread of the rank, behind the launch's entry.
__device__ inline TaskOrder task_order(const ForwardParams& params, const MegaRank& rank,
                                       int32_t num_ctas) {
  TaskOrder order = {.table = {at_base(rank.space, params.space.units),
                               *at_base(rank.space, params.space.num_units)},
                     .fc1_columns = params.fc1_columns,
                     .fc2_columns = params.fc2_columns};
  order.lag = choose_lag({.num_units = order.table.num_units,
                          .num_tiles = order.num_tiles(),
                          .fc1_columns = params.fc1_columns,
                          .wanted_tasks = params.lag_waves * num_ctas,
                          .unit_tiles = params.unit_tiles,
                          .pool_tiles = params.pool_tiles});
  return order;
}

}  // namespace megaflux::mega
