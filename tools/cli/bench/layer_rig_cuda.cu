#include "cli/bench/layer_rig_cuda.h"

#include <algorithm>

#include "cli/gpu/gpu_backend.h"
#include "megaflux/base/math.h"
#include "megaflux/comm/local_group_cuda.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/session/random_fill_cuda.h"

namespace megaflux::cli {
namespace {

Bf16* bf16_at(const DeviceMemory& memory) {
  return reinterpret_cast<Bf16*>(memory.data());
}

size_t bf16_bytes(int64_t count) {
  return static_cast<size_t>(count) * sizeof(Bf16);
}

constexpr float kWeightScale = 0.05f;

// What the head has left on rank 0, as on all others.
Plan plan_left(const DeviceSession& session) {
  const DeviceStep step = session.read_step(0);
  MF_INVARIANT(step.head.outcome == HeadOutcome::kPlanned, "a head ended with outcome ",
               static_cast<uint32_t>(step.head.outcome), " in the place of a plan");
  return Plan::from_bytes(step.plan);
}

}  // namespace

RandomWeights::RandomWeights(const LayerShape& shape, std::span<const int32_t> owner_of,
                             std::span<const int32_t> device_of) {
  const auto num_ranks = static_cast<int32_t>(device_of.size());
  const std::vector<int32_t> owned = owned_experts(owner_of, num_ranks);
  const int64_t w1 = shape.w1_elements(), w2 = shape.w2_elements();
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    owned_.push_back({.num_experts = owned[rank],
                      .w1 = DeviceMemory(device_of[rank], bf16_bytes(owned[rank] * w1)),
                      .w2 = DeviceMemory(device_of[rank], bf16_bytes(owned[rank] * w2))});
  }
  const std::vector<int32_t> local = local_index_of(owner_of, num_ranks);
  for (int32_t expert = 0; expert < shape.num_experts; ++expert) {
    const Owned& of_owner = owned_[owner_of[expert]];
    const CurrentDevice current(device_of[owner_of[expert]]);
    const uint64_t seed = 2 * static_cast<uint64_t>(expert) + 1;
    fill_random(bf16_at(of_owner.w1) + local[expert] * w1, w1, kWeightScale, seed);
    fill_random(bf16_at(of_owner.w2) + local[expert] * w2, w2, kWeightScale, seed + 1);
    MF_CUDA(cudaDeviceSynchronize());
  }
}

std::vector<MegaWeights> RandomWeights::of_ranks() const {
  std::vector<MegaWeights> weights;
  for (const Owned& of_rank : owned_) {
    weights.push_back(
        {.num_owned = of_rank.num_experts, .w1 = bf16_at(of_rank.w1), .w2 = bf16_at(of_rank.w2)});
  }
  return weights;
}

LayerRig::LayerRig(DeviceSessionConfig config, std::span<const int32_t> device_of,
                   std::shared_ptr<RandomWeights> weights, std::span<const Routing> routing)
    : device_of_(device_of.begin(), device_of.end()), weights_(std::move(weights)) {
  const CurrentDevice current(device_of_[0]);
  for (const Routing& of_rank : routing) {
    config.max_tokens = std::max(config.max_tokens, of_rank.num_tokens);
  }
  config.ranks_per_device = most_hosted(device_of_);
  session_ = std::make_unique<DeviceSession>(config, [&](const Layout& layout) {
    return std::make_unique<LocalGroup>(LocalConfig{.device_of = device_of_}, layout);
  });
  session_->set_weights(0, weights_->of_ranks());
  for (int32_t rank = 0; rank < session_->num_local(); ++rank) add_rank(rank, routing[rank]);
  timer_.emplace(session_->group());
  session_->route(tensors_);
  session_->group().synchronize();
  plan_ = plan_left(*session_);
  run(LaunchKind::kLayer, 3);
}

// Tokens lie where peers read them, so that no copy is timed.
void LayerRig::add_rank(int32_t rank, const Routing& routing) {
  const int32_t device = device_of_[rank];
  const CurrentDevice current(device);
  const int64_t elements = int64_t{routing.num_tokens} * session_->config().shape.hidden;
  Bf16* x = session_->tokens(rank);
  if (x == nullptr) x = bf16_at(memory_.emplace_back(device, bf16_bytes(elements)));
  // Weights have the small seeds.
  fill_random(x, elements, 1.0f, 4 * kMaxDeviceExperts + static_cast<uint64_t>(rank));
  MF_CUDA(cudaDeviceSynchronize());
  y_.emplace_back(device, bf16_bytes(elements));
  RoutingView view = routing.view();
  const auto copied = [&](const auto& values) {
    return memory_.emplace_back(DeviceMemory::copy_of(device, std::as_bytes(std::span(values))))
        .data();
  };
  view.topk_ids = copied(routing.topk_ids);
  view.topk_weights = reinterpret_cast<const float*>(copied(routing.topk_weights));
  tensors_.push_back({.x = x, .y = y_.back().data(), .routing = view});
}

void LayerRig::launch(LaunchKind kind, int32_t launches) {
  for (int32_t i = 0; i < launches; ++i) {
    if (kind == LaunchKind::kLayer) session_->route(tensors_);
    session_->compute(tensors_);
  }
}

double LayerRig::run(LaunchKind kind, int32_t launches, int32_t lead) {
  session_->set_stages(kind == LaunchKind::kGemms ? ForwardStages::kGemms : ForwardStages::kWhole);
  launch(kind, lead);
  // Brings all devices to the same place.
  session_->route(tensors_);
  timer_->begin();
  launch(kind, launches);
  timer_->end();
  session_->group().synchronize();
  return timer_->slowest_ms() / launches;
}

std::vector<std::vector<std::byte>> LayerRig::outputs(uint8_t poison) {
  for (size_t rank = 0; rank < y_.size(); ++rank) {
    const CurrentDevice current(device_of_[rank]);
    MF_CUDA(cudaMemset(y_[rank].data(), poison, y_[rank].bytes()));
    MF_CUDA(cudaDeviceSynchronize());
  }
  run(LaunchKind::kLayer, 1);
  std::vector<std::vector<std::byte>> outputs;
  for (const DeviceMemory& y : y_) {
    outputs.emplace_back(y.bytes());
    MF_CUDA(cudaMemcpy(outputs.back().data(), y.data(), y.bytes(), cudaMemcpyDeviceToHost));
  }
  return outputs;
}

}  // namespace megaflux::cli
