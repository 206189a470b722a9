// Readiness: what CTAs of a rank tell each other about tiles and tokens, each word with who adds to
// it and who waits for it. Counters have two banks, as comm/layout.h says; tiles are counted by
// their position in the rank's list, so a ring of pool places needs no clearing in between.
#pragma once

#include "megaflux/layer/mega/cta_device.cuh"

namespace megaflux::mega {

// What a tile's words count to: its 128 rows, and the tasks of a phase on it.
__device__ __forceinline__ uint32_t writers_of_a(const ForwardParams& params) {
  return static_cast<uint32_t>(params.fc1_columns);
}
__device__ __forceinline__ uint32_t readers_of_a(const ForwardParams& params) {
  return static_cast<uint32_t>(params.fc2_columns);
}

__device__ __forceinline__ bool await_tile(const CtaView& cta, WaitTag tag, CounterField field,
                                           int32_t tile, uint32_t expected) {
  return wait_for<kRankScope>(
      cta.self,
      {.tag = tag, .word = cta.counter(field) + tile, .expected = expected, .index = tile});
}

// One thread: the inputs of a task are in memory and its output's place is free. False: the group
// has aborted.
__device__ __forceinline__ bool await_task(const CtaView& cta, const Task& task) {
  const ForwardParams& params = cta.params;
  const MegaFields& fields = params.fields;
  if (task.phase == Phase::kFc2) {
    return await_tile(cta, WaitTag::kAFull, fields.a_full, task.tile, writers_of_a(params));
  }
  if (!cta.is_whole()) return true;
  // Others wait for what then does not follow; a flag that is lost shall be the one named.
  const Awaited rows = {.tag = WaitTag::kXFull,
                        .word = cta.counter(fields.x_full) + task.tile,
                        .expected = kTileRows,
                        .index = task.tile,
                        .is_impatient = params.fault == Fault::kLostFlag};
  if (!wait_for<kRankScope>(cta.self, rows)) return false;
  const int32_t before = task.tile - params.pool_tiles;  // had the place of A before
  return before < 0 ||
         await_tile(cta, WaitTag::kRingSlotFree, fields.o_done, before, readers_of_a(params));
}

// One thread: the weights of a task's column tile are in its slot, if the launch brings them there.
// `pulled` has a bit for each such slot.
__device__ __forceinline__ bool await_weights(const CtaView& cta, uint32_t pulled,
                                              const Task& task) {
  const int32_t slot = task.weight_slot - cta.rank.num_owned;
  if (slot < 0 || (pulled >> slot & 1) == 0) return true;
  const ForwardParams& params = cta.params;
  const bool is_fc1 = task.phase == Phase::kFc1;
  const CounterField ready = is_fc1 ? params.fields.w1_ready : params.fields.w2_ready;
  const int32_t columns = is_fc1 ? params.fc1_columns : params.fc2_columns;
  return wait_for<kRankScope>(
      cta.self, {.tag = is_fc1 ? WaitTag::kW1Ready : WaitTag::kW2Ready,
                 .word = cta.counter(ready) + slot * columns + task.column,
                 .expected = static_cast<uint32_t>(params.cuts[is_fc1 ? 0 : 1].tile_pieces()),
                 .index = slot});
}

// One thread: the tile's place in the pool of rows is free.
__device__ __forceinline__ bool await_place(const CtaView& cta, int32_t tile) {
  const int32_t before = tile - cta.params.pool_tiles;
  return before < 0 || await_tile(cta, WaitTag::kRingSlotFree, cta.params.fields.a_full, before,
                                  writers_of_a(cta.params));
}

__device__ __forceinline__ void count_tile(const CtaView& cta, CounterField field, int32_t tile,
                                           uint32_t amount) {
  count_signal<kRankScope>(cta.self, cta.counter(field) + tile, amount);
}

}  // namespace megaflux::mega
