// Role scheduler: one warp. Takes tasks off the rank's list, in list order, and hands them to the
// CTA's other roles. Waits for their use of the slot; signals task_full.
#pragma once

#include "megaflux/layer/mega/cta_device.cuh"

namespace megaflux::mega {

// One warp: the step that holds `position`, not before `step`.
__device__ inline int32_t find_step(const TaskOrder& order, int32_t step, int32_t position) {
  for (;;) {
    const int32_t candidate = step + 1 + lane_idx();
    const bool is_begun = candidate < order.num_steps() && order.step_begin(candidate) <= position;
    const int32_t num_begun = __popc(__ballot_sync(~0u, is_begun));
    step += num_begun;
    if (num_begun < kWarp) return step;
  }
}

// One warp: the position that comes next, or -1 at the end.
__device__ __forceinline__ int32_t take_position(const CtaView& cta, int32_t num_tasks,
                                                 bool is_first) {
  int32_t position = cta.self.cta;
  if (lane_idx() == 0) {
    if (!is_first) {
      uint32_t* const next = cta.counter(cta.params.fields.next_task);
      const uint32_t taken = add_signal<kRankScope>(cta.self, next, 1);
      position = cta.self.num_ctas + static_cast<int32_t>(taken);
    }
    if (position >= num_tasks || cta.is_stopped()) position = -1;
  }
  return __shfl_sync(~0u, position, 0);
}

__device__ inline void hand_out(const CtaView& cta, const TaskOrder& order) {
  const int32_t num_tasks = order.num_tasks();
  RingPlace<kTaskSlots> slot;
  int32_t step = 0;
  for (bool is_first = true;; is_first = false, slot.advance()) {
    // A task is not taken before its slot is free: one that waits in a busy CTA is one that an idle
    // CTA lacks.
    await_barrier(cta.shared.task_empty[slot.index], slot.parity ^ 1);
    const int32_t position = take_position(cta, num_tasks, is_first);
    if (position >= 0) step = find_step(order, step, position);
    if (lane_idx() == 0) {
      TaskSlot& out = cta.shared.tasks[slot.index];
      if (position >= 0) out.task = order.task_at(step, position);
      out.is_end = position < 0;
      arrive(cta.shared.task_full[slot.index]);
    }
    if (position < 0) return;
  }
}

}  // namespace megaflux::mega
