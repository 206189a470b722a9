// Random steps to explain: small, odd, and with every table and objective now and then.
#pragma once

#include <cstdint>
#include <vector>

#include "explain/step_facts.h"
#include "megaflux/base/rng.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/plan/planner.h"

namespace megaflux::explain {

inline CostModel any_cost(Rng& rng) {
  return {.block_ps = 1 + rng.below(3'000'000),
          .weight_bytes = rng.below(3'000'000),
          .gradient_bytes = rng.below(2) * rng.below(3'000'000),
          .link_bytes_per_us = 1 + rng.below(400'000),
          .send_bytes_per_us = rng.below(2) * rng.below(400'000),
          .plan_ns = rng.below(5'000),
          .pre_gate_ns = rng.below(2'000),
          .copy_latency_ns = rng.below(3'000),
          .round_ns = rng.below(10'000),
          .pool_blocks = rng.below(2) * (1 + rng.below(50))};
}

inline void fill_tables(Rng& rng, PlanConfig& config) {
  const auto below = [&rng](uint32_t bound) { return static_cast<int32_t>(rng.below(bound)); };
  const int32_t num_ranks = config.dims.num_ranks;
  config.owner_of = contiguous_owners(config.dims.num_experts, num_ranks);
  if (below(3) == 0) {
    for (int32_t& owner : config.owner_of) owner = below(num_ranks);
  }
  const bool has_domains = below(3) == 0, has_mask = below(4) == 0;
  const bool has_base = below(4) == 0, has_speed = below(4) == 0;
  for (int32_t r = 0; r < num_ranks; ++r) {
    if (has_domains) config.domain_of.push_back(below(2));
    if (has_mask) config.active.push_back(below(5) > 0);
    if (has_base) config.base_blocks.push_back(below(2) * below(20));
    if (has_speed) config.speed.push_back(static_cast<uint16_t>(256 + rng.below(1800)));
  }
  if (has_mask) config.active[below(num_ranks)] = 1;
}

inline StepInput any_input(Rng& rng, PlannerKind planner) {
  const auto below = [&rng](uint32_t bound) { return static_cast<int32_t>(rng.below(bound)); };
  StepInput input;
  PlanConfig& config = input.config;
  config.planner = planner;
  config.objective = static_cast<Objective>(below(3));
  config.dims = {.num_experts = 1 + below(14),
                 .num_ranks = 1 + below(6),
                 .replica_slots = below(4),
                 .block_rows = below(2) == 0 ? 1 : 1 + below(12)};
  config.lambda_blocks = below(8);
  config.slack_ppm = below(2) * below(200'000);
  config.min_copy_blocks = 1 + below(2) * below(6);
  config.min_rows_per_replica = 1 + below(2) * below(40);
  config.min_forward_rows = below(8) == 0 ? below(900) : 0;
  config.baselines.llep.min_rows = 1 + below(30);
  fill_tables(rng, config);
  if (config.objective == Objective::kCost || below(2) == 0) config.cost = any_cost(rng);
  const int32_t heat = 1 + below(4);
  std::vector<int32_t> rows;
  for (int32_t p = 0; p < config.dims.num_ranks; ++p) {
    for (int32_t e = 0; e < config.dims.num_experts; ++e) {
      const bool is_dead = !config.active.empty() && config.active[config.owner_of[e]] == 0;
      const bool is_hot = e % 5 == 1 || below(heat) == 0;
      rows.push_back(is_dead || e % 7 == 6 ? 0 : below(is_hot ? 60 : 8));
    }
  }
  input.loads.assign(config.dims.num_ranks, config.dims.num_experts, rows);
  return input;
}

}  // namespace megaflux::explain
