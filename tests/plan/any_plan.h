// Random legal plans with the loads and configuration they belong to, for tests of what reads a
// plan.
#pragma once

#include <cstdint>
#include <vector>

#include "megaflux/base/rng.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/moe/plan.h"
#include "megaflux/plan/planner.h"

namespace megaflux {

struct PlanCase {
  LoadTable loads;
  PlanConfig config;
  std::vector<int32_t> resident;  // [P s], or empty
  Plan plan;
};

// Any owner table, domains, active mask, residents and block size; replicas at random wherever they
// are legal. Nothing about the plan is good, everything about it is legal.
inline PlanCase any_plan_case(Rng& rng) {
  const auto below = [&rng](uint32_t bound) { return static_cast<int32_t>(rng.below(bound)); };
  PlanCase result;
  PlanConfig& config = result.config;
  PlanDims& dims = config.dims;
  dims = {.num_experts = 1 + below(24),
          .num_ranks = 1 + below(9),
          .replica_slots = below(4),
          .block_rows = below(3) == 0 ? 1 : 1 + below(40)};
  std::vector<int32_t> owner_of = contiguous_owners(dims.num_experts, dims.num_ranks);
  if (below(2) == 0) {
    for (int32_t& owner : owner_of) owner = below(dims.num_ranks);
    config.owner_of = owner_of;
  }
  if (below(3) == 0) {
    for (int32_t rank = 0; rank < dims.num_ranks; ++rank) config.domain_of.push_back(below(2));
  }
  if (below(3) == 0) {
    for (int32_t rank = 0; rank < dims.num_ranks; ++rank) config.active.push_back(below(5) > 0);
    config.active[below(dims.num_ranks)] = 1;
  }
  const auto is_active = [&config](int32_t rank) {
    return config.active.empty() || config.active[rank] != 0;
  };
  std::vector<int32_t> rows(static_cast<size_t>(dims.num_ranks) * dims.num_experts, 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool is_cold = (i % dims.num_experts) % 5 == 4;
    if (!is_cold && is_active(owner_of[i % dims.num_experts])) rows[i] = below(60);
  }
  result.loads.assign(dims.num_ranks, dims.num_experts, rows);

  std::vector<int32_t> blocks;
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    blocks.push_back(result.loads.blocks(e, dims.block_rows));
  }
  if (below(2) == 0) {
    for (int32_t i = 0; i < dims.num_ranks * dims.replica_slots; ++i) {
      result.resident.push_back(below(dims.num_experts + 1) - 1);
    }
  }
  std::vector<DraftReplica> replicas;
  std::vector<int32_t> left = blocks;
  for (int32_t rank = 0; rank < dims.num_ranks; ++rank) {
    std::vector<bool> is_here(dims.num_experts, false);
    for (int32_t slot = 0; slot < dims.replica_slots; ++slot) {
      const int32_t e = below(dims.num_experts);
      const bool crosses =
          !config.domain_of.empty() && config.domain_of[rank] != config.domain_of[owner_of[e]];
      if (is_here[e] || crosses || !is_active(rank) || owner_of[e] == rank || left[e] == 0) {
        continue;
      }
      is_here[e] = true;
      replicas.push_back({.expert = e, .rank = rank, .num_blocks = 1 + below(left[e])});
      left[e] -= replicas.back().num_blocks;
    }
  }
  result.plan.assign({.dims = dims,
                      .owner_of = owner_of,
                      .blocks = blocks,
                      .replicas = replicas,
                      .resident = result.resident});
  return result;
}

}  // namespace megaflux
