#include "megaflux/layer/staged/distribute_weights_cuda.h"

#include "megaflux/comm/entry_exit_device.cuh"
#include "megaflux/comm/launch_cuda.h"
#include "megaflux/comm/pull_device.cuh"

namespace megaflux {
namespace {

constexpr int32_t kWarp = 32, kWarps = 8;
constexpr uint32_t kChunkBytes = 4096, kChunks = 4;
using Ring = PullRing<kChunkBytes, kChunks>;

// Lane 0 of a warp.
__device__ void pull(Puller<kChunkBytes, kChunks>& puller, const PieceCopy& piece) {
  for (uint32_t at = 0; at < piece.bytes; at += kChunkBytes) {
    puller.push(piece.to + at, piece.from + at, min(kChunkBytes, piece.bytes - at));
  }
  if (piece.bias_bytes > 0) {
    puller.push(reinterpret_cast<std::byte*>(piece.biases_to),
                reinterpret_cast<const std::byte*>(piece.biases_from), piece.bias_bytes);
  }
}

// All warps of the rank: the pieces of all missing replicas, neighbouring ones in different CTAs.
__device__ void pull_weights(const DeviceRank& self, const DistributeParams& params, Ring* rings) {
  const auto warp = static_cast<int32_t>(threadIdx.x) / kWarp;
  const bool is_puller = threadIdx.x % kWarp == 0;
  const LaneReplica replica = find_replica(self, params.planned);
  const uint32_t missing = __ballot_sync(~0u, replica.is_missing);
  const int32_t w1_pieces = params.cuts[0].num_pieces();
  const int32_t expert_pieces = w1_pieces + params.cuts[1].num_pieces();
  const int32_t num_pieces = __popc(missing) * expert_pieces;
  Puller<kChunkBytes, kChunks> puller(rings[warp], is_puller);
  puller.begin();
  for (int32_t i = warp * self.num_ctas + self.cta; i < num_pieces; i += kWarps * self.num_ctas) {
    // The lane of the (i / expert_pieces)th missing one.
    const auto lane = static_cast<int32_t>(__fns(missing, 0, 1 + i / expert_pieces));
    const int32_t expert = __shfl_sync(~0u, replica.part.expert, lane);
    const int32_t slot = __shfl_sync(~0u, replica.slot, lane);
    const int32_t index = i % expert_pieces;
    const Matrix matrix = index < w1_pieces ? Matrix::kW1 : Matrix::kW2;
    const WeightCut& cut = params.cuts[static_cast<int32_t>(matrix)];
    if (is_puller) {
      pull(puller, locate_piece(cut, matrix, matrix == Matrix::kW1 ? index : index - w1_pieces,
                                params.pools[self.local_idx], slot, params.sources[expert]));
    }
  }
  if (is_puller) puller.finish();
}

__global__ void __launch_bounds__(kWarps* kWarp)
    distribute_weights_kernel(const __grid_constant__ DeviceContext context,
                              const __grid_constant__ DistributeParams params) {
  extern __shared__ __align__(128) std::byte memory[];
  const DeviceRank self = begin_launch(context);
  EntryOutcome outcome = EntryOutcome::kEntered;
  if (self.cta == 0) {
    const PlanHeader& plan = plan_header(self, params.planned);
    const EntryWords words = {.op = LaunchOp::kDistributeWeights,
                              .layer = params.layer,
                              .plan_hash = plan.hash,
                              .config_hash = params.config_hash};
    post_entry(self, words, nullptr, 0, plan_refusal(plan));
    outcome = await_entries(self, words);
  } else {
    outcome = join_entry(self);
  }
  if (outcome != EntryOutcome::kEntered) return end_launch(self);
  pull_weights(self, params, reinterpret_cast<Ring*>(memory));
  leave(self);
}

}  // namespace

DistributeWeights::DistributeWeights(const DistributeConfig& config,
                                     std::span<const SlotPool> pools)
    : num_sms_(config.num_sms), num_local_(static_cast<int32_t>(pools.size())) {
  MF_CHECK(num_local_ >= 1 && num_local_ <= kMaxLocalRanks, "pools: of ", num_local_,
           " ranks, outside [1, ", kMaxLocalRanks, "]");
  params_.cuts[0] = config.w1_cut;
  params_.cuts[1] = config.w2_cut;
  params_.config_hash = config.config_hash;
  std::copy(pools.begin(), pools.end(), params_.pools);
}

void DistributeWeights::launch(const DeviceContext& context, const DistributeStep& step,
                               cudaStream_t stream) const {
  MF_CHECK(context.num_local == num_local_, "group: ", context.num_local,
           " ranks on the device, pools were given for ", num_local_);
  MF_CHECK(step.sources != nullptr, "sources: none are given");
  DistributeParams params = params_;
  params.planned = step.planned;
  params.sources = step.sources;
  params.layer = step.layer;
  launch_ranks(distribute_weights_kernel,
               {.ctas_per_rank = num_sms_,
                .num_threads = kWarps * kWarp,
                .shared_bytes = kWarps * sizeof(Ring)},
               stream, context, params);
}

}  // namespace megaflux
