// Random planner configurations of every kind a device takes, and random steps for them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/base/math.h"
#include "megaflux/base/rng.h"
#include "megaflux/moe/layer_shape.h"
#include "megaflux/plan/planner.h"

namespace megaflux {

inline LayerShape shape_of(const PlanDims& dims) {
  LayerShape shape;
  shape.num_experts = dims.num_experts;
  shape.topk = 1;
  shape.hidden = 2048;
  shape.inter = 768;
  return shape;
}

// A step: loads and what is resident.
struct Step {
  std::vector<int32_t> rows;      // [P, E]
  std::vector<int32_t> resident;  // [P s], or empty
};

// Rows split unevenly over the sources.
inline std::vector<int32_t> rows_by_source(std::span<const int64_t> totals, int32_t num_ranks,
                                           Rng& rng) {
  const size_t experts = totals.size();
  std::vector<int32_t> rows(static_cast<size_t>(num_ranks) * experts, 0);
  for (size_t e = 0; e < experts; ++e) {
    int64_t left = totals[e];
    for (int32_t p = 0; p < num_ranks; ++p) {
      const auto most = static_cast<uint32_t>(std::min<int64_t>(2 * left / (num_ranks - p), left));
      const int64_t part = p + 1 == num_ranks ? left : rng.below(most + 1);
      rows[static_cast<size_t>(p) * experts + e] = static_cast<int32_t>(part);
      left -= part;
    }
  }
  return rows;
}

// Totals of a few shapes: flat, skewed, hot ones, mostly empty, one alone, nothing.
inline std::vector<int64_t> any_totals(int32_t num_experts, int64_t most, Rng& rng) {
  std::vector<int64_t> totals(num_experts, 0);
  const uint32_t kind = rng.below(12);
  for (int64_t& total : totals) {
    const double u = rng.uniform();
    const auto scale = static_cast<double>(most);
    if (kind < 3) total = static_cast<int64_t>(scale * (0.5 + 0.1 * u));
    if (kind >= 3 && kind < 8) total = static_cast<int64_t>(scale * u * u * u * u);
    if (kind == 8) total = rng.below(8) == 0 ? static_cast<int64_t>(scale * u) : most / 50;
    if (kind == 9) total = rng.below(10) == 0 ? static_cast<int64_t>(scale * u) : 0;
  }
  if (kind == 10) totals[rng.below(static_cast<uint32_t>(num_experts))] = most * 4;
  return totals;
}

template <typename T, size_t N>
T any_of(const T (&values)[N], Rng& rng) {
  return values[rng.below(N)];
}

// Tables that ranks may differ in.
inline void any_tables(PlanConfig& config, Rng& rng) {
  const auto below = [&rng](uint32_t bound) { return static_cast<int32_t>(rng.below(bound)); };
  const int32_t ranks = config.dims.num_ranks;
  if (below(3) == 0) {
    for (int32_t e = 0; e < config.dims.num_experts; ++e) config.owner_of.push_back(below(ranks));
  }
  if (below(6) == 0) {
    for (int32_t r = 0; r < ranks; ++r) config.domain_of.push_back(below(3));
  }
  if (below(6) == 0) {
    for (int32_t r = 0; r < ranks; ++r) config.active.push_back(below(9) > 0);
    config.active[below(ranks)] = 1;
  }
  if (below(6) == 0) {
    for (int32_t r = 0; r < ranks; ++r) config.base_blocks.push_back(below(4) * below(20));
  }
  if (below(6) == 0) {
    for (int32_t r = 0; r < ranks; ++r) {
      config.speed.push_back(static_cast<uint16_t>(below(4) == 0 ? 512 + below(1000) : 1024));
    }
  }
}

// Owners that send faster or slower than a link, and now and then times that 64 bits do not hold.
inline CostModel any_cost(const PlanConfig& config, Rng& rng) {
  const auto below = [&rng](uint32_t bound) { return static_cast<int64_t>(rng.below(bound)); };
  MachineModel machine = machine_model("h200");
  if (below(2) == 0) machine.send_mb_per_s = 1 + below(4) * machine.link_mb_per_s;
  if (below(4) == 0) machine.link_mb_per_s = 1 + below(100'000);
  if (below(4) == 0) machine.plan_ns = below(100'000);
  CostModel cost =
      make_cost_model(machine, shape_of(config.dims), config.dims.block_rows,
                      CostScope::kForwardBackward, below(3) == 0 ? 128 * (1 + below(200)) : 0);
  if (below(6) == 0) {
    for (uint64_t* value : {&cost.block_ps, &cost.weight_bytes, &cost.gradient_bytes,
                            &cost.round_ns, &cost.plan_ns, &cost.copy_latency_ns}) {
      if (below(3) == 0) *value <<= below(40);
    }
  }
  return cost;
}

inline PlanConfig any_config(Rng& rng) {
  const auto below = [&rng](uint32_t bound) { return static_cast<int32_t>(rng.below(bound)); };
  constexpr int32_t kExperts[] = {1, 2, 7, 16, 33, 60, 64, 100, 128, 160, 256, 256, 384, 1024};
  constexpr int32_t kRanks[] = {1, 2, 3, 4, 8, 8, 16, 31, 32, 33, 64, 65, 72, 128};
  constexpr int32_t kSlots[] = {0, 1, 1, 2, 2, 2, 3, 4, 8};
  constexpr int32_t kBlockRows[] = {1, 16, 100, 128, 128, 128};
  constexpr PlannerKind kPlanners[] = {PlannerKind::kMegaflux, PlannerKind::kMegaflux,
                                       PlannerKind::kMegaflux, PlannerKind::kPaper,
                                       PlannerKind::kQuota,    PlannerKind::kFixed};
  constexpr Objective kObjectives[] = {Objective::kForward, Objective::kForward,
                                       Objective::kBackward, Objective::kCost};
  PlanConfig config;
  config.dims = {any_of(kExperts, rng), any_of(kRanks, rng), any_of(kSlots, rng),
                 any_of(kBlockRows, rng)};
  config.planner = any_of(kPlanners, rng);
  config.objective = any_of(kObjectives, rng);
  config.lambda_blocks = below(20);
  if (below(2) == 0) config.slack_ppm = below(50'000);
  if (below(4) == 0) config.min_copy_blocks = 1 + below(6);
  if (below(4) == 0) config.min_rows_per_replica = 1 + below(400);
  if (below(8) == 0) config.min_forward_rows = below(100'000);
  any_tables(config, rng);
  config.cost = any_cost(config, rng);
  return config;
}

inline Step any_step(const PlanConfig& config, Rng& rng) {
  const PlanDims& dims = config.dims;
  const int64_t most = 1 + int64_t{dims.block_rows} * rng.below(rng.below(3) == 0 ? 2000 : 100);
  std::vector<int64_t> totals = any_totals(dims.num_experts, most, rng);
  // Orphans end a plan at once, so they are the exception.
  for (int32_t e = 0; e < dims.num_experts && !config.active.empty(); ++e) {
    const int32_t per = ceil_div(dims.num_experts, dims.num_ranks);
    const int32_t owner =
        config.owner_of.empty() ? std::min(e / per, dims.num_ranks - 1) : config.owner_of[e];
    if (config.active[owner] == 0 && rng.below(2000) != 0) totals[e] = 0;
  }
  Step step{rows_by_source(totals, dims.num_ranks, rng), {}};
  if (rng.below(3) == 0) {
    for (int32_t i = 0; i < dims.num_ranks * dims.replica_slots; ++i) {
      const bool is_held = rng.below(2) == 0;
      step.resident.push_back(
          is_held ? static_cast<int32_t>(rng.below(static_cast<uint32_t>(dims.num_experts))) : -1);
    }
  }
  return step;
}

}  // namespace megaflux
