#include "head/device_rig.cuh"

#include "megaflux/head/head_kernel.cuh"

namespace megaflux::test {
namespace {

// A planner that makes no plan.
struct RefusingPlanner {
  static constexpr int32_t kThreads = 384;
  HeadOutcome answer = HeadOutcome::kNoLegalPlan;

  size_t shared_bytes() const { return 0; }
  MF_HOST_DEVICE size_t scratch_offset() const { return 0; }
  __device__ void prepare(int32_t, std::byte*) const {}
  __device__ void add_rows(int64_t, int32_t, std::byte*) const {}
  __device__ HeadOutcome operator()(const int32_t*, std::byte*, std::byte*, std::byte*) const {
    return answer;
  }
  __device__ PlanView staged(PlanView plan, std::byte*) const { return plan; }
};

constexpr HeadOutcome kNoPlan = HeadOutcome::kNoLegalPlan;

// A head of every rank but one.
__global__ void __launch_bounds__(RefusingPlanner::kThreads, 1)
    faulty_kernel(const __grid_constant__ DeviceContext context,
                  const __grid_constant__ DeviceHeadParams params, RankFault fault,
                  int32_t faulty_rank) {
  const DeviceRank self = begin_launch(context);
  if (self.rank != faulty_rank) return run_head(context, params, RefusingPlanner{kNoPlan});
  if (fault == RankFault::kStaysAway) return;
  const EntryWords words = {
      .op = fault == RankFault::kOtherLaunch ? LaunchOp::kForward : LaunchOp::kHead,
      .layer = params.layer,
      .plan_hash = device_head::residency_hash(params),
      .config_hash = params.config_hash + (fault == RankFault::kOtherConfig ? 1 : 0)};
  if (self.cta == 0) {
    enter(self, words);
  } else {
    join_entry(self);
  }
  end_launch(self);
}

// A rank that dies behind its entry: one warp, and a launch that never ends.
__global__ void dying_kernel(const __grid_constant__ DeviceContext context,
                             const __grid_constant__ DeviceHeadParams params) {
  const DeviceRank self = begin_launch(context);
  post_entry_by_warp(self, {.op = LaunchOp::kHead,
                            .layer = params.layer,
                            .plan_hash = device_head::residency_hash(params),
                            .config_hash = params.config_hash});
}

}  // namespace

void DeviceRig::launch(PartOrder order) {
  size_t i = 0;
  group_->launch([&](const DeviceContext& context, cudaStream_t stream) {
    launch_on(i, context, *planners_[i], order, stream);
    ++i;
  });
}

void DeviceRig::launch_with(const DevicePlanner& planner) {
  group_->launch([&](const DeviceContext& context, cudaStream_t stream) {
    launch_on(0, context, planner, PartOrder::kOwnedFirst, stream);
  });
}

void DeviceRig::launch_on(size_t device_idx, const DeviceContext& context,
                          const DevicePlanner& planner, PartOrder order, cudaStream_t stream) {
  launch_head(context, *heads_[device_idx], params_on(device_idx, order), planner, stream);
}

DeviceHeadParams DeviceRig::params_on(size_t device_idx, PartOrder order) const {
  return heads_[device_idx]->params(
      routings_on(device_idx),
      {.layer = 3,
       .weight_version = 7,
       .resident = has_residents_ ? residents_[device_idx].data() : nullptr,
       .order = order});
}

void DeviceRig::launch_refusing(HeadOutcome outcome) {
  size_t i = 0;
  group_->launch([&](const DeviceContext& context, cudaStream_t stream) {
    launch_head_kernel(context, heads_[i]->num_ctas(), heads_[i]->params(routings_on(i), {}),
                       RefusingPlanner{outcome}, stream);
    ++i;
  });
}

void DeviceRig::launch_with_fault(RankFault fault, int32_t faulty_rank) {
  size_t i = 0;
  group_->launch([&](const DeviceContext& context, cudaStream_t stream) {
    constexpr int32_t kThreads = RefusingPlanner::kThreads;
    const int32_t num_ctas = heads_[i]->num_ctas();
    const DeviceHeadParams params =
        cut_routings(heads_[i]->params(routings_on(i), {}), context.num_local, num_ctas, kThreads);
    launch_ranks(faulty_kernel,
                 {.ctas_per_rank = num_ctas,
                  .num_threads = kThreads,
                  .shared_bytes = head_shared_bytes(params, RefusingPlanner{kNoPlan})},
                 stream, context, params, fault, faulty_rank);
    ++i;
  });
}

void DeviceRig::launch_without_last(RankFault fault) {
  constexpr PartOrder kOrder = PartOrder::kOwnedFirst;
  group_->launch([&](const DeviceContext& context, cudaStream_t stream) {
    DeviceContext others = context;
    others.num_local -= 1;
    if (fault == RankFault::kTellsNoCounts) {
      DeviceContext dying = context;
      dying.local += others.num_local;
      dying.num_local = 1;
      launch_ranks(dying_kernel, {.num_threads = kWarpThreads}, stream, dying,
                   params_on(0, kOrder));
    }
    launch_on(0, others, *planners_[0], kOrder, stream);
  });
}

}  // namespace megaflux::test
