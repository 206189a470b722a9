// Role math: two warpgroups, each 64 rows of a task's 128 x 256 tile. Waits for tasks, for stages
// that are loaded, for staged_empty and targets_full; signals stage_empty, staged_full and pushed.
//
// One product group stays in flight: a stage is given back when the next one's products have been
// issued.
#pragma once

#include "megaflux/layer/mega/activation_device.cuh"
#include "megaflux/layer/mega/arch/sm90/warp_device.cuh"
#include "megaflux/layer/mega/arch/sm90/wgmma_device.cuh"
#include "megaflux/layer/mega/cta_device.cuh"

namespace megaflux::mega {

using sm90::kAccumulators;

// Where a thread's accumulators stand: rows `row` and row + 8 of the warpgroup's, columns 8 j +
// column, + 1 of each j.
struct ThreadPlace {
  int32_t row = 16 * group_warp_idx() + lane_idx() / 4;
  int32_t column = 2 * (lane_idx() % 4);
};

__device__ __forceinline__ void multiply_tile(ForwardShared& shared, int32_t group,
                                              int32_t num_steps, RingPlace<kStages>& stage,
                                              float (&acc)[kAccumulators]) {
  constexpr int32_t kHalf = kGroupRows * kTileDepth;
  int32_t before = 0;
  for (int32_t step = 0; step < num_steps; ++step, stage.advance()) {
    await_barrier(shared.stage_full[stage.index], stage.parity);
    const uint64_t a = sm90::matrix_descriptor(shared.rows[stage.index] + group * kHalf);
    const uint64_t b = sm90::matrix_descriptor(shared.weights[stage.index]);
    sm90::begin_products();
#pragma unroll
    for (int32_t u = 0; u < kTileDepth / 16; ++u) {
      const uint64_t offset = u * sm90::kDepthStep;
      sm90::multiply_64x256x16(acc, a + offset, b + offset, step > 0 || u > 0);
    }
    sm90::commit_products();
    sm90::await_products<1>();
    if (step > 0 && lane_idx() == 0) arrive(shared.stage_empty[before]);
    before = stage.index;
  }
  sm90::await_accumulators(acc);
  if (lane_idx() == 0) arrive(shared.stage_empty[before]);
}

// Two 8-column groups, each given for a thread's two rows, to columns 8 chunk, ... of 16 rows in
// shared memory, of kColumns each, as the copy engine swizzles them.
template <int32_t kColumns>
__device__ __forceinline__ void stage_pair(Bf16* rows, int32_t chunk, const uint32_t (&values)[4]) {
  const int32_t row = lane_idx() % 16;
  const int32_t swizzle = kColumns == 64 ? row % 8 : row / 2 % 4;
  const int32_t place = (chunk + lane_idx() / 16) ^ swizzle;
  sm90::store_matrices(rows + row * kColumns + 8 * place, values);
}

// The biases of a task's weights, `count` an expert.
__device__ __forceinline__ const float* biases_of(const CtaView& cta, const Task& task,
                                                  const float* owned, const float* slots,
                                                  int32_t count) {
  const int32_t slot = task.weight_slot - cta.rank.num_owned;
  return slot < 0 ? owned + int64_t{task.weight_slot} * count : slots + int64_t{slot} * count;
}

// fp32 biases of column groups that a thread holds, two columns of each.
__device__ __forceinline__ void add_bias(const float* bias, float* acc) {
  const float2 two = *reinterpret_cast<const float2*>(bias);
  acc[0] += two.x;
  acc[1] += two.y;
  acc[2] += two.x;
  acc[3] += two.y;
}

// Z of a thread's columns in a piece of a tile, 8 channels a row and half as many ups and gates,
// and which of its two rows exist.
struct ThreadZ {
  const float* z;
  bool is_kept[2];
};

// A of a piece into the warp's 16 rows of shared memory.
template <Activation::Kind kKind, bool kIsGateFirst>
__device__ __forceinline__ void stage_channels(const Activation& activation, const ThreadZ& of,
                                               Bf16* staged) {
  constexpr int32_t kGate = kIsGateFirst ? 0 : 4, kUp = 4 - kGate;
#pragma unroll
  for (int32_t j = 0; j < kStagedChannels / 8; j += 2) {
    uint32_t values[4];
#pragma unroll
    for (int32_t i = 0; i < 4; ++i) {
      const float* const z = of.z + 8 * (j + i / 2) + 2 * (i % 2);
      const float low = activate<kKind>(activation, z[kGate], z[kUp]);
      const float high = activate<kKind>(activation, z[kGate + 1], z[kUp + 1]);
      values[i] = of.is_kept[i % 2] ? sm90::pack_bf16(low, high) : 0;
    }
    stage_pair<kStagedChannels>(staged, j, values);
  }
}

__device__ __forceinline__ void stage_channels(const ForwardParams& params, const ThreadZ& of,
                                               Bf16* staged) {
  using Kind = Activation::Kind;
  const Activation& activation = params.activation;
  if (activation.kind == Kind::kSwiGlu) {
    if (params.is_gate_first) {
      stage_channels<Kind::kSwiGlu, true>(activation, of, staged);
    } else {
      stage_channels<Kind::kSwiGlu, false>(activation, of, staged);
    }
  } else if (params.is_gate_first) {
    stage_channels<Kind::kClampedSwiGlu, true>(activation, of, staged);
  } else {
    stage_channels<Kind::kClampedSwiGlu, false>(activation, of, staged);
  }
}

// A of one task: SwiGLU in registers, 32 channels at a time through shared memory.
__device__ __forceinline__ void finish_fc1(const CtaView& cta, const Task& task, int32_t group,
                                           RingPlace<kStagings>& staged,
                                           float (&acc)[kAccumulators]) {
  constexpr int32_t kWarpRows = kGroupRows / kWarpgroupWarps;
  const ForwardParams& params = cta.params;
  const ThreadPlace place;
  const int32_t num_rows = task.num_rows - group * kGroupRows;
#pragma unroll
  for (int32_t piece = 0; piece < kTileChannels / kStagedChannels; ++piece) {
    const int32_t first = task.column * kTileChannels + piece * kStagedChannels;
    if (first >= params.inter) break;
    float* const z = acc + kStagedChannels * piece;
    if (params.has_bias) {
      const float* const b1 =
          biases_of(cta, task, cta.rank.b1, cta.rank.slots.b1, 2 * params.inter) + first;
#pragma unroll
      for (int32_t j = 0; j < kStagedChannels / 8; ++j) {
        add_bias(b1 + 8 * j + place.column, z + 8 * j);
        add_bias(b1 + params.inter + 8 * j + place.column, z + 8 * j + 4);
      }
    }
    await_barrier(cta.shared.staged_empty[group][staged.index], staged.parity ^ 1);
    stage_channels(
        params, {z, {place.row < num_rows, place.row + 8 < num_rows}},
        cta.shared.staged[group].a[staged.index] + group_warp_idx() * kWarpRows * kStagedChannels);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    arrive_as_warp(cta.shared.staged_full[group][staged.index]);
    staged.advance();
  }
}

// 64 columns of a warp's 16 rows of O, from shared memory to their targets, 16 bytes a lane.
__device__ __forceinline__ void write_results(Bf16* const* targets, const Bf16* turned,
                                              int32_t first) {
  const int32_t chunk = lane_idx() % 8;
#pragma unroll
  for (int32_t i = 0; i < 4; ++i) {
    const int32_t row = lane_idx() / 8 + 4 * i;
    Bf16* const target = targets[row];
    if (target == nullptr) continue;
    const Bf16* const from = turned + row * kTurnedColumns + 8 * (chunk ^ (row % 8));
    *reinterpret_cast<uint4*>(target + first + 8 * chunk) = *reinterpret_cast<const uint4*>(from);
  }
}

// To O of one task, ahead of what follows: behind this nobody needs the place of the biases.
__device__ __forceinline__ void add_fc2_biases(const CtaView& cta, const Task& task,
                                               float (&acc)[kAccumulators]) {
  if (!cta.params.has_bias) return;
  const int32_t hidden = cta.params.hidden, first = task.column * kTileColumns;
  const float* const b2 =
      biases_of(cta, task, cta.rank.b2, cta.rank.slots.b2, hidden) + first + ThreadPlace().column;
#pragma unroll
  for (int32_t j = 0; j < kTileColumns / 8; ++j) {
    if (first + 8 * j < hidden) add_bias(b2 + 8 * j, acc + 4 * j);
  }
}

// O of one task: rounded once, each row to its place among the results of its source.
__device__ __forceinline__ void finish_fc2(const CtaView& cta, const Task& task, int32_t group,
                                           int32_t slot, float (&acc)[kAccumulators]) {
  const int32_t hidden = cta.params.hidden;
  Bf16* const turned = cta.shared.staged[group].o[group_warp_idx()];
  Bf16* const* const targets =
      cta.shared.targets[slot] + group * kGroupRows + 16 * group_warp_idx();
  if (__any_sync(~0u, cta.is_stopped())) return;
  add_fc2_biases(cta, task, acc);
#pragma unroll
  for (int32_t quarter = 0; quarter < kTileColumns / kTurnedColumns; ++quarter) {
    const int32_t first = task.column * kTileColumns + quarter * kTurnedColumns;
    if (first >= hidden) break;
#pragma unroll
    for (int32_t j = 0; j < 8; j += 2) {
      const float* const o = acc + 32 * quarter + 4 * j;
      const uint32_t values[4] = {sm90::pack_bf16(o[0], o[1]), sm90::pack_bf16(o[2], o[3]),
                                  sm90::pack_bf16(o[4], o[5]), sm90::pack_bf16(o[6], o[7])};
      stage_pair<kTurnedColumns>(turned, j, values);
    }
    __syncwarp();
    write_results(targets, turned, first);
    __syncwarp();
  }
}

// All pieces of A that were staged before have been read.
__device__ __forceinline__ void await_staging(const CtaView& cta, int32_t group,
                                              RingPlace<kStagings> staged) {
#pragma unroll
  for (int32_t i = 0; i < kStagings; ++i, staged.advance()) {
    await_barrier(cta.shared.staged_empty[group][staged.index], staged.parity ^ 1);
  }
}

__device__ __forceinline__ void multiply_tiles(const CtaView& cta, int32_t group, Tracer& tracer) {
  float acc[kAccumulators];
  RingPlace<kStages> stage;
  RingPlace<kStagings> staged;
  for (TaskReader reader(cta); reader.next(); reader.done_as_warp()) {
    const Task task = reader.task();
    tracer.begin();
    multiply_tile(cta.shared, group, cta.depth_steps(task.phase), stage, acc);
    tracer.end(TraceKind::kMultiply, trace_index(task));
    tracer.begin();
    await_barrier(cta.shared.targets_full[reader.slot()], reader.parity());
    if (task.phase == Phase::kFc1) {
      finish_fc1(cta, task, group, staged, acc);
    } else {
      await_staging(cta, group, staged);
      finish_fc2(cta, task, group, reader.slot(), acc);
    }
    arrive(cta.shared.pushed[group][reader.slot()]);
    tracer.end(TraceKind::kFinish, trace_index(task));
  }
}

}  // namespace megaflux::mega
