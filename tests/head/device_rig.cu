#include "head/device_rig.cuh"

#include "megaflux/head/head_kernel.cuh"

namespace megaflux::test {
namespace {

// A planner that makes no plan.
struct RefusingPlanner {
  static constexpr int32_t kThreads = 384;
  HeadOutcome answer = HeadOutcome::kNoLegalPlan;

  __device__ void operator()(const int32_t*, const int32_t*, std::byte*, std::byte*,
                             std::byte*) const {}
  __device__ HeadOutcome outcome(const std::byte*) const { return answer; }
};

}  // namespace

void DeviceRig::launch(PartOrder order) {
  size_t i = 0;
  group_->launch([&](const DeviceContext& context, cudaStream_t stream) {
    const DeviceHeadStep step = {.layer = 3,
                                 .weight_version = 7,
                                 .resident = residents_.empty() ? nullptr : residents_[i].data(),
                                 .order = order};
    launch_head(context, *heads_[i], heads_[i]->params(routings_on(i), step), *planners_[i],
                stream);
    ++i;
  });
}

void DeviceRig::launch_refusing(HeadOutcome outcome) {
  size_t i = 0;
  group_->launch([&](const DeviceContext& context, cudaStream_t stream) {
    launch_head_kernel(context, heads_[i]->num_ctas(), heads_[i]->params(routings_on(i), {}),
                       RefusingPlanner{outcome}, 0, stream);
    ++i;
  });
}

}  // namespace megaflux::test
