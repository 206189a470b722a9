// Role storer: one warp. Looks up where a task's results go, moves staged A to the pool, and tells
// other CTAs, behind the writes, what is complete. Waits for a_full, staged_full and pushed;
// signals targets_full, staged_empty, a_full, y_count and o_done.
#pragma once

#include "megaflux/layer/mega/readiness_device.cuh"

namespace megaflux::mega {

// One lane: A of a task, 64 rows of 32 channels at a time.
__device__ __forceinline__ void store_activations(const CtaView& cta, const Task& task,
                                                  RingPlace<kStagings>& staged) {
  ForwardShared& shared = cta.shared;
  const int32_t row = task.tile % cta.params.pool_tiles * kTileRows;
  const int32_t first = task.column * kTileChannels;
  const int32_t end = min(first + kTileChannels, cta.params.inter);
  for (int32_t channel = first; channel < end; channel += kStagedChannels, staged.advance()) {
    for (int32_t group = 0; group < kMathGroups; ++group) {
      await_barrier(shared.staged_full[group][staged.index], staged.parity);
      cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_global, cuda::ptx::space_shared,
                                      &cta.rank.maps->a_store, {channel, row + group * kGroupRows},
                                      shared.staged[group].a[staged.index]);
      cuda::ptx::cp_async_bulk_commit_group();
    }
    // The next piece is being staged in the other place meanwhile.
    cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
    for (auto& empty : shared.staged_empty) arrive(empty[staged.index]);
  }
  cuda::ptx::cp_async_bulk_wait_group(cuda::ptx::n32_t<0>());
  cuda::ptx::fence_proxy_async();  // between the copy engine's writes and the signal
  count_tile(cta, cta.params.fields.a_full, task.tile, 1);
}

// What a lane knows of an FC2 task: the counters of its 4 rows.
struct LaneRows {
  static constexpr int32_t kRows = kTileRows / kWarp;
  uint32_t* counts[kRows];  // null = no such row
};

// One warp: where the rows of a task's results go, for the math warps.
__device__ __forceinline__ LaneRows find_targets(const CtaView& cta, const Task& task,
                                                 int32_t slot) {
  const ForwardParams& params = cta.params;
  const HeapView& heap = cta.self.group.heap;
  bool is_sound = true;
  if (lane_idx() == 0) is_sound = await_task(cta, task);  // behind it, the origins are there
  is_sound = __shfl_sync(~0u, is_sound, 0);
  __syncwarp();  // what lane 0 has acquired, the others may read
  const RowOrigin* const origins =
      cta.space(params.space.origins) + int64_t{task.tile} * kTileRows + lane_idx();
  LaneRows rows;
#pragma unroll
  for (int32_t i = 0; i < LaneRows::kRows; ++i) {
    RowOrigin origin = {.source = -1, .token = 0, .k = 0};
    if (is_sound) origin = origins[i * kWarp];
    const bool is_row = origin.source >= 0;
    const int64_t pair = int64_t{origin.token} * cta.rank.routing.topk + origin.k;
    Bf16* target = nullptr;
    rows.counts[i] = nullptr;
    if (is_row) {
      target = heap.at(origin.source, params.fields.results) + pair * params.hidden;
      rows.counts[i] = heap.at(origin.source, params.fields.y_count, cta.self.epoch) +
                       origin.token / kCountedTokens;
    }
    cta.shared.targets[slot][i * kWarp + lane_idx()] = target;
  }
  arrive(cta.shared.targets_full[slot]);
  return rows;
}

// One warp: a task's results are where they belong. Whoever completes a tile has seen all of its
// results, and tells their sources.
__device__ __forceinline__ void count_results(const CtaView& cta, const Task& task,
                                              const LaneRows& rows) {
  bool is_last = false;
  if (lane_idx() == 0) {
    uint32_t* const done = cta.counter(cta.params.fields.o_done) + task.tile;
    is_last = add_signal<kRankScope>(cta.self, done, 1) + 1 == readers_of_a(cta.params);
  }
  is_last = __shfl_sync(~0u, is_last, 0);
  __syncwarp();  // what lane 0 has acquired, the others publish
  if (!is_last || !cta.is_whole() || cta.is_stopped()) return;
  for (uint32_t* const count : rows.counts) {
    if (count != nullptr) count_signal<kPeerScope>(cta.self, count, 1);
  }
}

// Both math warpgroups are done with the task.
__device__ __forceinline__ void await_pushed(const CtaView& cta, const TaskReader& reader) {
  for (auto& pushed : cta.shared.pushed) await_barrier(pushed[reader.slot()], reader.parity());
}

__device__ inline void store_tiles(const CtaView& cta) {
  RingPlace<kStagings> staged;
  Tracer tracer(cta.params.trace, TraceLane::kStorer, lane_idx() == 0);
  for (TaskReader reader(cta); reader.next(); reader.done_as_warp()) {
    const Task task = reader.task();
    tracer.begin();
    if (task.phase == Phase::kFc1) {
      arrive(cta.shared.targets_full[reader.slot()]);  // no targets, but a round of the slot
      if (lane_idx() == 0) store_activations(cta, task, staged);
      await_pushed(cta, reader);
    } else {
      const LaneRows rows = find_targets(cta, task, reader.slot());
      await_pushed(cta, reader);
      count_results(cta, task, rows);
    }
    tracer.end(TraceKind::kStore, trace_index(task));
  }
}

}  // namespace megaflux::mega
