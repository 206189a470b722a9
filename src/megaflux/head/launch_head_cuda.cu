#include "megaflux/base/check.h"
#include "megaflux/head/device_head_cuda.h"
#include "megaflux/head/head_kernel.cuh"
#include "megaflux/plan/device_planner_cuda.h"
#include "megaflux/plan/planner_device.cuh"

namespace megaflux {
namespace {

static_assert(sizeof(device_head::PlannerShared) <= kPlannerCallerBytes);

// The device planner as run_head takes it.
template <class Lanes>
struct SearchingPlanner {
  static constexpr int32_t kThreads = kPlannerThreads<Lanes>;
  DevicePlannerParams params;

  size_t shared_bytes() const { return params.shared_bytes; }
  MF_HOST_DEVICE size_t scratch_offset() const { return params.search_offset; }

  __device__ void prepare(int32_t num_threads, std::byte* shared) const {
    prepare_plan(params, num_threads, memory_at(shared));
  }
  __device__ void add_rows(int64_t rows, int32_t expert, std::byte* shared) const {
    megaflux::add_rows(rows, expert, memory_at(shared));
  }
  __device__ HeadOutcome operator()(const int32_t* resident, std::byte* plan, std::byte* report,
                                    std::byte* shared) const {
    const DevicePlanStatus status = plan_rows<Lanes>(
        params, resident, plan, reinterpret_cast<DevicePlanReport*>(report), memory_at(shared));
    if (status == DevicePlanStatus::kPlanned) return HeadOutcome::kPlanned;
    return status == DevicePlanStatus::kOrphans ? HeadOutcome::kNoLegalPlan
                                                : HeadOutcome::kTooManyRows;
  }
  __device__ PlanView staged(PlanView plan, std::byte* shared) const {
    plan.bytes = memory_at(shared).staged_plan(params);
    plan.block_rows = params.dims.block_rows;
    return plan;
  }

 private:
  __device__ static PlannerMemory& memory_at(std::byte* shared) {
    return *reinterpret_cast<PlannerMemory*>(shared);
  }
};

}  // namespace

void launch_head(const DeviceContext& context, const DeviceHead& head,
                 const DeviceHeadParams& params, const DevicePlanner& planner,
                 cudaStream_t stream) {
  const PlanDims made = planner.params().dims, needed = head.config().plan.dims;
  MF_CHECK(made.num_experts == needed.num_experts && made.num_ranks == needed.num_ranks &&
               made.replica_slots == needed.replica_slots,
           "planner: made for E ", made.num_experts, ", P ", made.num_ranks, ", s ",
           made.replica_slots, ", the head's are ", needed.num_experts, ", ", needed.num_ranks,
           " and ", needed.replica_slots);
  MF_CHECK(planner.max_rows() == max_step_rows(head.config()), "planner: made for max_rows ",
           planner.max_rows(), ", the head's max_step_rows is ", max_step_rows(head.config()));
  MF_CHECK(planner.hash() == head.plan_hash(),
           "planner: made with another configuration than the head's: its hash is ", planner.hash(),
           ", not ", head.plan_hash());
  MF_CHECK(head.fields().report.count >= sizeof(DevicePlanReport),
           "report_bytes: ", head.fields().report.count, ", the planner's report has ",
           sizeof(DevicePlanReport));
  with_planner_lanes(planner.params(), params.resident != nullptr, [&]<class Lanes>() {
    using Searching = SearchingPlanner<Lanes>;
    launch_head_kernel(context, head.num_ctas(), params, Searching{planner.params()}, stream);
  });
}

}  // namespace megaflux
