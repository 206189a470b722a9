#include "head/device_rig.cuh"

#include "megaflux/head/head_kernel.cuh"

namespace megaflux::test {
namespace {

// Stands in for a planner: takes a plan that lies in memory already, or ends with another outcome.
struct GivenPlan {
  static constexpr int32_t kThreads = 576;
  const std::byte* bytes = nullptr;
  int32_t num_bytes = 0;
  HeadOutcome answer = HeadOutcome::kPlanned;

  __device__ void operator()(const int32_t*, const int32_t*, std::byte* plan, std::byte*,
                             std::byte*) const {
    for (auto i = static_cast<int32_t>(threadIdx.x); i < num_bytes; i += blockDim.x) {
      plan[i] = bytes[i];
    }
  }
  __device__ HeadOutcome outcome(const std::byte*) const { return answer; }
};

}  // namespace

void DeviceRig::launch(const DeviceHeadStep& step, HeadOutcome outcome,
                       std::span<const cudaStream_t> streams) {
  size_t i = 0;
  group_->launch(
      [&](const DeviceContext& context, cudaStream_t stream) {
        std::vector<RoutingView> routings;
        for (const int32_t rank : group_->ranks_on(i)) routings.push_back(ids_[rank].view());
        const GivenPlan planner = {plans_[i].data(), static_cast<int32_t>(plans_[i].count()),
                                   outcome};
        launch_head_kernel(context, heads_[i]->num_ctas(), heads_[i]->params(routings, step),
                           planner, 0, stream);
        ++i;
      },
      streams);
}

}  // namespace megaflux::test
