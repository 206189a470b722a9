// Role storer: one warp. Moves staged A to the pool and tells other CTAs, behind the writes, what
// is complete. Waits for staged_full and pushed; signals staged_empty, a_full, y_count and o_done.
#pragma once

#include "megaflux/layer/mega/readiness_device.cuh"

namespace megaflux::mega {

// One lane: A of a task, 64 rows of 64 channels at a time.
__device__ __forceinline__ void store_activations(const CtaView& cta, const Task& task,
                                                  RingPlace<1>& staged) {
  const int32_t row = task.tile % cta.params.pool_tiles * kTileRows;
  const int32_t first = task.column * kTileChannels;
  const int32_t end = min(first + kTileChannels, cta.params.inter);
  for (int32_t channel = first; channel < end; channel += kStagedColumns, staged.advance()) {
    for (int32_t group = 0; group < kMathGroups; ++group) {
      await_barrier(cta.shared.staged_full[group], staged.parity);
      cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_global, cuda::ptx::space_shared,
                                      &cta.rank.maps->a_store, {channel, row + group * kGroupRows},
                                      cta.shared.staged[group]);
      cuda::ptx::cp_async_bulk_commit_group();
      cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
      arrive(cta.shared.staged_empty[group]);
    }
  }
  cuda::ptx::cp_async_bulk_wait_group(cuda::ptx::n32_t<0>());
  cuda::ptx::fence_proxy_async();  // between the copy engine's writes and the signal
  count_tile(cta, cta.params.fields.a_full, task.tile, 1);
}

// One warp: a task's results are where they belong.
__device__ __forceinline__ void count_results(const CtaView& cta, const Task& task) {
  const MegaFields& fields = cta.params.fields;
  const RowOrigin* const origins =
      cta.space(cta.params.space.origins) + int64_t{task.tile} * kTileRows;
  if (cta.is_whole() && !cta.is_stopped()) {
    for (int32_t row = lane_idx(); row < kTileRows; row += kWarp) {
      const RowOrigin origin = origins[row];
      if (origin.source < 0) continue;
      uint32_t* const counts =
          cta.self.group.heap.at(origin.source, fields.y_count, cta.self.epoch);
      count_signal<kPeerScope>(cta.self, counts + origin.token / kCountedTokens, 1);
    }
  }
  if (lane_idx() == 0) count_tile(cta, fields.o_done, task.tile, 1);
}

__device__ inline void store_tiles(const CtaView& cta) {
  RingPlace<1> staged;
  Tracer tracer(cta.params.trace, TraceLane::kStorer, lane_idx() == 0);
  for (TaskReader reader(cta); reader.next(); reader.done_as_warp()) {
    const Task task = reader.task();
    tracer.begin();
    if (task.phase == Phase::kFc1) {
      if (lane_idx() == 0) store_activations(cta, task, staged);
    } else {
      for (int32_t group = 0; group < kMathGroups; ++group) {
        await_barrier(cta.shared.pushed[group][reader.slot()], reader.parity());
      }
      count_results(cta, task);
    }
    tracer.end(TraceKind::kStore, trace_index(task));
  }
}

}  // namespace megaflux::mega
