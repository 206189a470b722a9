// Builds what the order of a rank's launch follows from, once a launch, before its entry: the table
// of units of its work list, and the weights in its pull list.
#pragma once

#include "megaflux/base/block_scan_device.cuh"
#include "megaflux/layer/mega/cta_device.cuh"
#include "megaflux/layer/replica_pull_device.cuh"

namespace megaflux::mega {

// Shared memory of the CTA that builds.
struct UnitScratch {
  uint64_t sums[kMaxCtaWarps];
  int32_t begins[kNumThreads];  // of a thread's part among the units of all, ascending
};

// The place of the last of `count` begins, which start at 0, that is not above `place`.
__device__ __forceinline__ int32_t find_begin(const int32_t* begins, int32_t count, int32_t place) {
  int32_t found = 0, above = count;
#pragma unroll 1
  while (above - found > 1) {
    const int32_t middle = (found + above) / 2;
    if (begins[middle] <= place) {
      found = middle;
    } else {
      above = middle;
    }
  }
  return found;
}

// All threads of one CTA. A thread counts the units of a part, but writes those of any: one part
// may have nearly all.
__device__ inline void build_units(const DeviceRank& self, const ForwardParams& params,
                                   const MegaRank& rank, UnitScratch& shared) {
  const WorkListHeader& header = *self.own(params.planned.work);
  const Part* const parts = self.own(params.planned.parts);
  Unit* const units = at_base(rank.space, params.space.units);
  const auto thread = static_cast<int32_t>(threadIdx.x);
  int32_t base = 0;
#pragma unroll 1
  for (int32_t first = 0; first < header.num_parts; first += kNumThreads) {
    const int32_t num_parts = min(header.num_parts - first, kNumThreads);
    const int32_t num_tiles = thread < num_parts ? parts[first + thread].num_tiles : 0;
    uint64_t before[1] = {static_cast<uint64_t>(num_units_of(num_tiles, params.unit_tiles))};
    uint64_t total[1];
    scan_exclusive(before, total, kNumThreads, shared.sums);
    shared.begins[thread] = static_cast<int32_t>(before[0]);
    __syncthreads();
    const auto num_units = static_cast<int32_t>(total[0]);
#pragma unroll 1
    for (int32_t u = thread; u < num_units; u += kNumThreads) {
      const int32_t index = find_begin(shared.begins, num_parts, u);
      const Part& part = parts[first + index];
      units[base + u] =
          unit_of(part, num_units_of(part.num_tiles, params.unit_tiles), u - shared.begins[index]);
    }
    __syncthreads();  // all have looked
    base += num_units;
  }
  if (thread == 0) {
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

// One warp of the CTA that built the units.
__device__ inline void build_runs(const DeviceRank& self, const ForwardParams& params,
                                  const MegaRank& rank) {
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
  const LaneReplica replica = find_replica(self, params.planned);
  // The GEMMs alone take what the last whole launch has brought.
  const bool is_pulled = replica.is_missing && params.slots == SlotFill::kPulled &&
                         params.stages == ForwardStages::kWhole;
  const TaskOrder tasks = task_order(params, rank, self.num_ctas);
  const PullOrder order = {
      .unit_tiles = params.unit_tiles,
      .lag = tasks.lag,
      .num_pieces = {params.cuts[0].num_pieces(), params.cuts[1].num_pieces()}};
  // A lane's two runs stand behind those of the lanes above it, whose parts come earlier.
  const uint32_t pulled = __ballot_sync(~0u, is_pulled);
  const int32_t above = __popc(pulled & ~((2u << lane) - 1));
  if (is_pulled) {
    WeightRun* const runs = at_base(rank.space, params.space.runs) + 2 * above;
    const int32_t before = above * (order.num_pieces[0] + order.num_pieces[1]);
    runs[0] = run_of(replica.part, replica.slot, Matrix::kW1, order, before);
    runs[1] = run_of(replica.part, replica.slot, Matrix::kW2, order, before + order.num_pieces[0]);
  }
  const uint32_t mask = __reduce_or_sync(~0u, is_pulled ? 1u << replica.slot : 0u);
  const int32_t count = __popc(pulled);
  if (lane == 0) {
    *at_base(rank.space, params.space.pulled) = {
        .num_runs = 2 * count,
        .num_weights = count * (order.num_pieces[0] + order.num_pieces[1]),
        .mask = mask};
  }
}

}  // namespace megaflux::mega
