// Short ways to plan in tests.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"
#include "megaflux/plan/planner.h"

namespace megaflux {

struct Planned {
  Plan plan;
  PlanReport report;
  std::vector<int32_t> loads;  // [P] blocks
  int32_t moved = 0;           // blocks in replicas
};

inline LoadTable loads_of(int32_t num_ranks, const std::vector<int64_t>& totals) {
  return LoadTable::from_totals(num_ranks, totals);
}

inline Planned plan_once(const PlanConfig& config, const LoadTable& loads,
                         const std::vector<int32_t>& resident = {}) {
  Planned result;
  make_planner(config)->plan(loads, resident, result.plan, result.report);
  if (result.plan.empty()) return result;
  result.loads.resize(config.dims.num_ranks);
  result.plan.blocks_per_rank(result.loads);
  for (int32_t e = 0; e < config.dims.num_experts; ++e) {
    for (const Instance& instance : result.plan.instances_of(e)) {
      if (instance.slot >= 0) result.moved += instance.num_blocks;
    }
  }
  return result;
}

// A configuration for `planner` with rows as blocks.
inline PlanConfig row_config(PlannerKind planner, int32_t num_experts, int32_t num_ranks,
                             int32_t slots) {
  PlanConfig config;
  config.planner = planner;
  config.dims = {num_experts, num_ranks, slots, 1};
  return config;
}

// Blocks of `expert` on `rank`, -1 if it has no instance there.
inline int32_t blocks_on(const Plan& plan, int32_t expert, int32_t rank) {
  for (const Instance& instance : plan.instances_of(expert)) {
    if (instance.rank == rank) return instance.num_blocks;
  }
  return -1;
}

}  // namespace megaflux
