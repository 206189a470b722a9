// Role producer: one thread. Loads rows and weights of the CTA's tasks, stage by stage. Waits for
// the tasks' inputs (await_task, await_weights) and for free stages; signals stage_full.
#pragma once

#include "megaflux/layer/mega/readiness_device.cuh"

namespace megaflux::mega {

__device__ __forceinline__ void load_stage(const CtaView& cta, const Task& task, int32_t stage,
                                           int32_t first_k) {
  constexpr uint32_t kBytes = (kTileRows + kTileColumns) * kTileDepth * uint32_t{sizeof(Bf16)};
  ForwardShared& shared = cta.shared;
  const MegaMaps& maps = *cta.rank.maps;
  uint64_t* const full = &shared.stage_full[stage];
  cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                       cuda::ptx::space_shared, full, kBytes);
  const int32_t row = task.tile % cta.params.pool_tiles * kTileRows;
  const bool is_fc1 = task.phase == Phase::kFc1;
  const int32_t slot = task.weight_slot - cta.rank.num_owned;
  const int32_t place = slot < 0 ? task.weight_slot : slot;
  cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global,
                                  shared.rows[stage], is_fc1 ? &maps.x_load : &maps.a_load,
                                  {first_k, row}, full);
  if (is_fc1) {
    constexpr int32_t kEight = 8;
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global,
                                    shared.weights[stage], slot < 0 ? &maps.w1 : &maps.slot_w1,
                                    {first_k, 0, 0, task.column * (kTileChannels / kEight), place},
                                    full);
  } else {
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global,
                                    shared.weights[stage], slot < 0 ? &maps.w2 : &maps.slot_w2,
                                    {first_k, task.column * kTileColumns, place}, full);
  }
}

__device__ inline void load_tiles(const CtaView& cta) {
  RingPlace<kStages> stage;
  Tracer tracer(cta.params.trace, TraceLane::kProducer, true);
  const uint32_t pulled = cta.pulled().mask;
  bool is_sound = true;
  for (TaskReader reader(cta); reader.next(); reader.done()) {
    const Task task = reader.task();
    tracer.begin();
    is_sound = is_sound && await_task(cta, task) && await_weights(cta, pulled, task);
    tracer.end(TraceKind::kAwait, trace_index(task));
    // After a failure the others still get their stages, with whatever lies there, until the
    // scheduler ends the list.
    if (!is_sound) *static_cast<volatile uint32_t*>(&cta.shared.stop) = 1;
    cuda::ptx::fence_proxy_async();  // the copy engine reads after what await_task has acquired
    tracer.begin();
    const int32_t num_steps = cta.depth_steps(task.phase);
    for (int32_t step = 0; step < num_steps; ++step, stage.advance()) {
      await_barrier(cta.shared.stage_empty[stage.index], stage.parity ^ 1);
      if (is_sound) {
        load_stage(cta, task, stage.index, step * kTileDepth);
      } else {
        arrive(cta.shared.stage_full[stage.index]);
      }
    }
    tracer.end(TraceKind::kLoad, trace_index(task));
  }
}

}  // namespace megaflux::mega
