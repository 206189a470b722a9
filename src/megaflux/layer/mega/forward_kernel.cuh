// The forward of the ranks of one device, in one launch: rows into the pool, FC1 with SwiGLU, FC2
// behind it, results to their sources, y. docs/kernels/forward.md tells the whole of it.
//
// A CTA's warps: producer, scheduler, storer, comm | 4 math | 4 math.
#pragma once

#include "megaflux/comm/entry_exit_device.cuh"
#include "megaflux/layer/mega/roles/combine_device.cuh"
#include "megaflux/layer/mega/roles/dispatch_device.cuh"
#include "megaflux/layer/mega/roles/math_device.cuh"
#include "megaflux/layer/mega/roles/producer_device.cuh"
#include "megaflux/layer/mega/roles/scheduler_device.cuh"
#include "megaflux/layer/mega/roles/storer_device.cuh"
#include "megaflux/layer/mega/slot_table_device.cuh"
#include "megaflux/layer/mega/unit_table_device.cuh"

namespace megaflux::mega {

__device__ __forceinline__ void run_comm(const CtaView& cta) {
  if (!cta.is_whole()) return;
  DeviceRank self = cta.self;
  self.role = Role::kComm;
  const CtaView comm = {self, cta.params, cta.rank, cta.shared};
  Tracer tracer(cta.params.trace, TraceLane::kComm, lane_idx() == 0);
  bring_list(comm, tracer);
  sum_tokens<CommSums>(comm, tracer);
}

__device__ __forceinline__ void run_load_group(const CtaView& cta) {
  switch (group_warp_idx()) {
    case kProducerWarp:
      if (lane_idx() == 0) load_tiles(cta);
      break;
    case kSchedulerWarp:
      hand_out(cta, task_order(cta.params, cta.rank, cta.self.num_ctas));
      break;
    case kStorerWarp:
      store_tiles(cta);
      break;
    default:
      run_comm(cta);
  }
}

__device__ __forceinline__ void run_math_group(const CtaView& cta, int32_t group) {
  const bool is_writer = threadIdx.x % sm90::kWarpgroupThreads == 0;
  Tracer tracer(cta.params.trace, group == 0 ? TraceLane::kMath0 : TraceLane::kMath1, is_writer);
  if (cta.is_whole()) bring_first_rows(cta, group * kWarpgroupWarps + group_warp_idx(), tracer);
  multiply_tiles(cta, group, tracer);
  if (cta.is_whole()) sum_tokens<MathSums>(cta, tracer);
}

// All threads of the CTA that enters for its rank. Without a plan no rank does anything. The rank's
// tables are made while the entries of peers are on their way.
__device__ __forceinline__ EntryOutcome enter_forward(const DeviceRank& self,
                                                      const ForwardParams& params,
                                                      UnitScratch& shared) {
  const PlanHeader& plan = plan_header(self, params.planned);
  const EntryWords words = {.op = LaunchOp::kForward,
                            .layer = params.layer,
                            .plan_hash = plan.hash,
                            .config_hash = params.config_hash};
  // Weights of another number of experts than the plan has here are refused too.
  const MegaRank& rank = params.ranks[self.local_idx];
  const bool is_other = self.own(params.planned.work)->num_owned != rank.num_owned;
  post_entry(self, words, nullptr, 0, is_other ? kPlanRefusal : plan_refusal(plan));
  build_units(self, params, rank, shared);
  __syncthreads();
  if (threadIdx.x < kWarp) build_runs(self, params, rank);
  const EntryOutcome outcome = await_entries(self, words);
  if (outcome == EntryOutcome::kEntered && params.stages == ForwardStages::kWhole) {
    note_slots(self, params.planned, params.fields.slot_experts);
  }
  return outcome;
}

__global__ void __launch_bounds__(kNumThreads, 1)
    forward_kernel(const __grid_constant__ DeviceContext context,
                   const __grid_constant__ ForwardParams params) {
  extern __shared__ __align__(1024) std::byte memory[];
  auto& shared = *reinterpret_cast<ForwardShared*>(memory);
  const DeviceRank self = begin_launch(context);
  const MegaRank& rank = params.ranks[self.local_idx];
  if (threadIdx.x == 0) make_barriers(shared);
  static_assert(sizeof(UnitScratch) <= sizeof(shared.staged));
  auto& scratch = reinterpret_cast<UnitScratch&>(shared.staged);
  const EntryOutcome outcome =
      self.cta == 0 ? enter_forward(self, params, scratch) : join_entry(self);
  cuda::ptx::fence_proxy_async();  // the scratch becomes the copy engine's
  __syncthreads();
  if (outcome != EntryOutcome::kEntered) {
    end_launch(self);
    return;
  }
  const CtaView cta = {self, params, rank, shared};
  const int32_t group = static_cast<int32_t>(threadIdx.x) / sm90::kWarpgroupThreads;
  if (group == kLoadGroup) {
    sm90::give_registers<kLoadRegisters>();
    run_load_group(cta);
  } else {
    sm90::take_registers<kMathRegisters>();
    run_math_group(cta, group - kFirstMathGroup);
  }
  __syncwarp();  // single lanes have had roles
  leave(self);
}

}  // namespace megaflux::mega
