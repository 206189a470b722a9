#include "megaflux/base/check.h"
#include "megaflux/head/device_head_cuda.h"
#include "megaflux/head/head_kernel.cuh"
#include "megaflux/plan/device_planner_cuda.h"
#include "megaflux/plan/planner_device.cuh"

namespace megaflux {
namespace {

// The device planner as run_head takes it.
template <class Lanes>
struct SearchingPlanner {
  static constexpr int32_t kThreads = kPlannerThreads<Lanes>;
  DevicePlannerParams params;

  __device__ void operator()(const int32_t* loads, const int32_t* resident, std::byte* plan,
                             std::byte* report, std::byte* shared) const {
    plan_on_device<Lanes>(params, loads, resident, plan,
                          reinterpret_cast<DevicePlanReport*>(report), shared);
  }
  __device__ HeadOutcome outcome(const std::byte* report) const {
    switch (reinterpret_cast<const DevicePlanReport*>(report)->status) {
      case DevicePlanStatus::kPlanned:
        return HeadOutcome::kPlanned;
      case DevicePlanStatus::kOrphans:
        return HeadOutcome::kNoLegalPlan;
      default:
        return HeadOutcome::kTooManyRows;
    }
  }
};

}  // namespace

void launch_head(const DeviceContext& context, const DeviceHead& head,
                 const DeviceHeadParams& params, const DevicePlanner& planner,
                 cudaStream_t stream) {
  const PlanDims made = planner.params().dims, needed = head.dims();
  MF_CHECK(made.num_experts == needed.num_experts && made.num_ranks == needed.num_ranks &&
               made.replica_slots == needed.replica_slots,
           "planner: made for E ", made.num_experts, ", P ", made.num_ranks, ", s ",
           made.replica_slots, ", the head's are ", needed.num_experts, ", ", needed.num_ranks,
           " and ", needed.replica_slots);
  MF_CHECK(head.fields().report.count >= sizeof(DevicePlanReport),
           "report_bytes: ", head.fields().report.count, ", the planner's report has ",
           sizeof(DevicePlanReport));
  with_planner_lanes(planner.params(), params.resident != nullptr, [&]<class Lanes>() {
    using Searching = SearchingPlanner<Lanes>;
    launch_head_kernel(context, head.num_ctas(), params, Searching{planner.params()},
                       planner.params().shared_bytes, stream);
  });
}

}  // namespace megaflux
