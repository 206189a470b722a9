// What the roles of a CTA share: its shared memory, the rings through which they hand each other
// stages and tasks, and their view of the launch.
//
//   scheduler --task--> producer, math, storer
//   producer --stage--> math --staged A--> storer
//
// Waits between roles of a CTA have no deadline of their own: a role that waits for other CTAs does
// so through the one wait, and goes on without data when that fails (stop).
#pragma once

#include <cuda/ptx>

#include <cstdint>

#include "megaflux/comm/pull_device.cuh"
#include "megaflux/comm/wait_device.cuh"
#include "megaflux/layer/mega/forward_params_cuda.h"

namespace megaflux::mega {

inline constexpr int32_t kWarp = 32;
inline constexpr int32_t kWarpgroupWarps = 4;
inline constexpr int32_t kMathGroups = 2;  // warpgroups that multiply, each half a tile's rows
inline constexpr int32_t kGroupRows = kTileRows / kMathGroups;
inline constexpr int32_t kStages = 256 / kTileDepth;
inline constexpr int32_t kStagings = 2;   // pieces of A on their way out, a math warpgroup
inline constexpr int32_t kTaskSlots = 2;  // the task in work and the next one

// Warpgroups of a CTA and registers of their threads. A product of 64 x 256 takes a launch of 154
// registers or more (ptxas), so there are three, and the four warps of the first have a role each.
inline constexpr int32_t kLoadGroup = 0, kFirstMathGroup = 1;
inline constexpr int32_t kProducerWarp = 0, kSchedulerWarp = 1, kStorerWarp = 2, kCommWarp = 3;
inline constexpr int32_t kNumThreads = 384;
inline constexpr int32_t kLaunchRegisters = 168;  // 65536 / 384, in steps of 8
inline constexpr int32_t kLoadRegisters = 120, kMathRegisters = 192;
// Registers move inside what the CTA was launched with: one too many, and the last to ask waits for
// ever.
static_assert(kLoadRegisters + kMathGroups * kMathRegisters <= 3 * kLaunchRegisters);

// A place in a ring of kSize, and the parity of its round there.
template <int32_t kSize>
struct RingPlace {
  int32_t index = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void advance() {
    if (++index == kSize) {
      index = 0;
      parity ^= 1;
    }
  }
};

struct TaskSlot {
  Task task;
  bool is_end = false;  // no task: the list is done, or the group has aborted
};

inline constexpr uint32_t kChunkBytes = 4096, kChunks = 4;  // of rows on their way to the pool
using TokenRing = PullRing<kChunkBytes, kChunks>;
using TokenPuller = Puller<kChunkBytes, kChunks>;

struct ForwardShared {
  alignas(1024) Bf16 rows[kStages][kTileRows * kTileDepth];
  alignas(1024) Bf16 weights[kStages][kTileColumns * kTileDepth];
  // On their way out: A in pieces of 64 rows x 32 channels, or O, 64 columns of a warp's 16 rows.
  union Staging {
    Bf16 a[kStagings][kGroupRows * kStagedChannels];
    Bf16 o[kWarpgroupWarps][kGroupRows / kWarpgroupWarps * kTurnedColumns];
  };
  alignas(1024) Staging staged[kMathGroups];
  TokenRing ring;                                 // of the comm warp
  Bf16* targets[kTaskSlots][kTileRows];           // of an FC2 task's rows; null = nowhere
  uint64_t stage_full[kStages];                   // producer -> math: loaded
  uint64_t stage_empty[kStages];                  // math -> producer: multiplied
  uint64_t task_full[kTaskSlots];                 // scheduler -> all: a task
  uint64_t task_empty[kTaskSlots];                // all -> scheduler: done with it
  uint64_t targets_full[kTaskSlots];              // storer -> math: the task's targets
  uint64_t staged_full[kMathGroups][kStagings];   // math -> storer: a piece of A
  uint64_t staged_empty[kMathGroups][kStagings];  // storer -> math: read
  uint64_t pushed[kMathGroups][kTaskSlots];       // math -> storer: the task's results are written
  TaskSlot tasks[kTaskSlots];
  uint32_t stop;  // a wait of this CTA's producer has failed: no more results
};
inline constexpr size_t kSharedBytes = sizeof(ForwardShared);
static_assert(kSharedBytes <= 227 * 1024);

// Of one launch; made once a thread.
struct CtaView {
  const DeviceRank& self;
  const ForwardParams& params;
  const MegaRank& rank;
  ForwardShared& shared;

  template <typename T>
  __device__ __forceinline__ T* space(Field<T> field) const {
    return at_base(rank.space, field);
  }
  __device__ __forceinline__ uint32_t* counter(CounterField field) const {
    return self.own(field, self.epoch);
  }
  __device__ __forceinline__ const WorkListHeader& work() const {
    return *self.own(params.planned.work);
  }
  __device__ __forceinline__ const PulledSlots& pulled() const {
    return *space(params.space.pulled);
  }
  __device__ __forceinline__ const Part* parts() const { return self.own(params.planned.parts); }
  __device__ __forceinline__ bool is_whole() const {
    return params.stages == ForwardStages::kWhole;
  }
  __device__ __forceinline__ int32_t depth_steps(Phase phase) const {
    return (phase == Phase::kFc1 ? params.hidden : params.inter) / kTileDepth;
  }
  __device__ __forceinline__ bool is_stopped() const {
    return *static_cast<volatile uint32_t*>(&shared.stop) != 0;
  }
};

// Of a task, in a trace.
__device__ __forceinline__ int32_t trace_index(const Task& task) {
  return 2 * (task.tile * 1024 + task.column) + (task.phase == Phase::kFc2 ? 1 : 0);
}

__device__ __forceinline__ int32_t lane_idx() {
  return static_cast<int32_t>(threadIdx.x) % kWarp;
}
// Among the warps of its warpgroup.
__device__ __forceinline__ int32_t group_warp_idx() {
  return static_cast<int32_t>(threadIdx.x) / kWarp % kWarpgroupWarps;
}

__device__ __forceinline__ void await_barrier(uint64_t& barrier, uint32_t parity) {
  while (!cuda::ptx::mbarrier_try_wait_parity(&barrier, parity)) {
  }
}
__device__ __forceinline__ void arrive(uint64_t& barrier) {
  cuda::ptx::mbarrier_arrive(&barrier);
}
// One arrival for the warp, behind the work of all its lanes.
__device__ __forceinline__ void arrive_as_warp(uint64_t& barrier) {
  __syncwarp();
  if (lane_idx() == 0) arrive(barrier);
}

// One thread, before a barrier of the CTA.
__device__ inline void make_barriers(ForwardShared& shared) {
  constexpr uint32_t kMathWarps = kMathGroups * kWarpgroupWarps;
  constexpr uint32_t kTaskReaders = 2 + kMathWarps;  // producer, math, storer
  const auto init = [](uint64_t& barrier, uint32_t count) {
    cuda::ptx::mbarrier_init(&barrier, count);
  };
  for (int32_t i = 0; i < kStages; ++i) {
    init(shared.stage_full[i], 1);
    init(shared.stage_empty[i], kMathWarps);
  }
  for (int32_t i = 0; i < kTaskSlots; ++i) {
    init(shared.task_full[i], 1);
    init(shared.task_empty[i], kTaskReaders);
    init(shared.targets_full[i], kWarp);
  }
  for (int32_t group = 0; group < kMathGroups; ++group) {
    for (int32_t i = 0; i < kStagings; ++i) {
      init(shared.staged_full[group][i], kWarpgroupWarps);
      init(shared.staged_empty[group][i], 1);
    }
    for (auto& pushed : shared.pushed[group]) init(pushed, kWarpgroupWarps * kWarp);
  }
  shared.stop = 0;
  cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
}

// The tasks of a CTA as a role sees them, one after the other.
//
//   for (TaskReader reader(cta); reader.next();) { ... reader.task() ...; reader.done_as_warp(); }
class TaskReader {
 public:
  __device__ __forceinline__ explicit TaskReader(const CtaView& cta) : shared_(cta.shared) {}

  // Waits for the next task; false at the end.
  __device__ __forceinline__ bool next() {
    await_barrier(shared_.task_full[slot_.index], slot_.parity);
    return !shared_.tasks[slot_.index].is_end;
  }
  __device__ __forceinline__ Task task() const { return shared_.tasks[slot_.index].task; }
  __device__ __forceinline__ int32_t slot() const { return slot_.index; }
  __device__ __forceinline__ uint32_t parity() const { return slot_.parity; }
  // The thread, or its warp, has no more use for the task's slot.
  __device__ __forceinline__ void done() {
    arrive(shared_.task_empty[slot_.index]);
    slot_.advance();
  }
  __device__ __forceinline__ void done_as_warp() {
    arrive_as_warp(shared_.task_empty[slot_.index]);
    slot_.advance();
  }

 private:
  ForwardShared& shared_;
  RingPlace<kTaskSlots> slot_;
};

}  // namespace megaflux::mega
