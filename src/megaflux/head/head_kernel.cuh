// The kernel that is a head and nothing else, for any planner functor (head_device.cuh).
#pragma once

#include "megaflux/comm/launch_cuda.h"
#include "megaflux/head/device_head_cuda.h"
#include "megaflux/head/head_device.cuh"

namespace megaflux {

template <class Planner>
__global__ void __launch_bounds__(Planner::kThreads, 1)
    head_kernel(const __grid_constant__ DeviceContext context,
                const __grid_constant__ DeviceHeadParams params,
                const __grid_constant__ Planner planner) {
  run_head(context, params, planner);
}

// The same argument with the pairs of every rank cut for its CTAs. Kernels that call run_head take
// it so.
inline DeviceHeadParams cut_routings(DeviceHeadParams params, int32_t num_local, int32_t num_ctas,
                                     int32_t num_threads) {
  for (int32_t i = 0; i < num_local; ++i) {
    const RoutingView& routing = params.routings[i];
    params.chunks[i] = RouteChunks::of(routing.num_tokens * routing.topk, params.num_experts,
                                       params.num_ranks, num_threads, num_ctas - 1);
  }
  return params;
}

// One launch for all ranks of the current device.
template <class Planner>
void launch_head_kernel(const DeviceContext& context, int32_t num_ctas,
                        const DeviceHeadParams& params, const Planner& planner,
                        cudaStream_t stream) {
  launch_ranks(head_kernel<Planner>,
               {.ctas_per_rank = num_ctas,
                .num_threads = Planner::kThreads,
                .shared_bytes = head_shared_bytes(params, planner)},
               stream, context,
               cut_routings(params, context.num_local, num_ctas, Planner::kThreads), planner);
}

}  // namespace megaflux
