// The kernel that is a head and nothing else, for any planner functor (head_device.cuh).
#pragma once

#include "megaflux/base/check.h"
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

// One launch for all ranks of the current device. The planner takes `planner_bytes` of dynamic
// shared memory.
template <class Planner>
void launch_head_kernel(const DeviceContext& context, int32_t num_ctas,
                        const DeviceHeadParams& params, const Planner& planner,
                        size_t planner_bytes, cudaStream_t stream) {
  MF_CHECK(context.protocol.payload_words >= params.num_experts,
           "payload_words: ", context.protocol.payload_words, ", a head sends ", params.num_experts,
           " (head_payload_words)");
  DeviceHeadParams cut = params;
  for (int32_t i = 0; i < context.num_local; ++i) {
    const RoutingView& routing = params.routings[i];
    cut.chunks[i] = RouteChunks::of(routing.num_tokens * routing.topk, params.num_experts,
                                    params.num_ranks, Planner::kThreads, num_ctas - 1);
  }
  launch_ranks(head_kernel<Planner>,
               {.ctas_per_rank = num_ctas,
                .num_threads = Planner::kThreads,
                .shared_bytes = head_shared_bytes(params, Planner::kThreads, planner_bytes)},
               stream, context, cut, planner);
}

}  // namespace megaflux
