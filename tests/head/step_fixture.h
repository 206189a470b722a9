// A group of ranks with a head each, and random routings for them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "megaflux/base/rng.h"
#include "megaflux/comm/threads_group.h"
#include "megaflux/head/head.h"
#include "megaflux/moe/routing.h"

namespace megaflux::test {

inline HeadConfig head_config(int32_t num_experts, int32_t num_ranks, int32_t slots, int32_t topk,
                              int32_t max_tokens, int32_t block_rows = 16) {
  HeadConfig config;
  config.plan.dims = {num_experts, num_ranks, slots, block_rows};
  config.topk = topk;
  config.max_tokens = max_tokens;
  return config;
}

// Ids skewed towards low experts, about one in eight -1, duplicates allowed.
inline Routing random_routing(Rng& rng, int32_t num_tokens, int32_t topk, int32_t num_experts) {
  Routing routing{.num_tokens = num_tokens, .topk = topk, .topk_ids = {}, .topk_weights = {}};
  for (int32_t i = 0; i < num_tokens * topk; ++i) {
    const double skewed = rng.uniform() * rng.uniform() * rng.uniform();
    const auto expert = static_cast<int32_t>(skewed * num_experts);
    routing.topk_ids.push_back(rng.below(8) == 0 ? -1 : expert);
    routing.topk_weights.push_back(rng.symmetric(1.0f));
  }
  return routing;
}

class Ranks {
 public:
  explicit Ranks(const std::vector<HeadConfig>& configs, int32_t num_roles = 1) {
    Layout layout;
    routes_ = add_head_fields(layout, configs[0]);
    group_ = std::make_unique<ThreadsGroup>(
        ThreadsConfig{.num_ranks = static_cast<int32_t>(configs.size()),
                      .num_roles = num_roles,
                      .payload_words = head_payload_words(configs[0])},
        layout);
    for (const HeadConfig& config : configs)
      heads_.push_back(std::make_unique<Head>(config, routes_));
  }
  explicit Ranks(const HeadConfig& config, int32_t num_roles = 1)
      : Ranks(std::vector<HeadConfig>(static_cast<size_t>(config.plan.dims.num_ranks), config),
              num_roles) {}

  // make(rank) gives each rank its HeadInput.
  template <typename Make>
  void step(Make&& make) {
    group_->run(Role::kCompute,
                [&](RankContext& ctx) { heads_[ctx.rank]->step(ctx, make(ctx.rank)); });
  }
  void step_with(const std::vector<Routing>& routings) {
    step([&](int32_t rank) { return HeadInput{.routing = routings[rank].view()}; });
  }

  int32_t num_ranks() const { return group_->num_ranks(); }
  ThreadsGroup& group() { return *group_; }
  const Head& head(int32_t rank) const { return *heads_[rank]; }
  const RouteFields& routes() const { return routes_; }

 private:
  RouteFields routes_;
  std::unique_ptr<ThreadsGroup> group_;
  std::vector<std::unique_ptr<Head>> heads_;
};

}  // namespace megaflux::test
