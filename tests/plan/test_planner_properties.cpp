// What every planner promises, for any loads and configuration.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "megaflux/base/rng.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/plan/legality.h"
#include "plan/planner_fixture.h"

namespace megaflux {
namespace {

struct AnyCase {
  PlanConfig config;
  LoadTable loads;
  std::vector<int32_t> resident;
};

CostModel any_cost(Rng& rng) {
  return {.block_ps = 1 + rng.below(3'000'000),
          .weight_bytes = rng.below(100'000'000),
          .gradient_bytes = rng.below(2) * rng.below(100'000'000),
          .link_bytes_per_us = 1 + rng.below(400'000),
          .send_bytes_per_us = rng.below(2) * rng.below(400'000),
          .plan_ns = rng.below(20'000),
          .pre_gate_ns = rng.below(2'000),
          .copy_latency_ns = rng.below(3'000),
          .round_ns = rng.below(10'000),
          .pool_blocks = rng.below(2) * (1 + rng.below(50))};
}

void fill_tables(Rng& rng, PlanConfig& config) {
  const int32_t num_ranks = config.dims.num_ranks;
  const auto below = [&rng](uint32_t bound) { return static_cast<int32_t>(rng.below(bound)); };
  if (below(2) == 0) {
    for (int32_t e = 0; e < config.dims.num_experts; ++e)
      config.owner_of.push_back(below(num_ranks));
  }
  const bool has_domains = below(3) == 0, has_mask = below(3) == 0;
  const bool has_base = below(3) == 0, has_speed = below(3) == 0;
  for (int32_t r = 0; r < num_ranks; ++r) {
    if (has_domains) config.domain_of.push_back(below(3));
    if (has_mask) config.active.push_back(below(5) > 0);
    if (has_base) config.base_blocks.push_back(below(2) * below(60));
    if (has_speed) config.speed.push_back(static_cast<uint16_t>(1 + rng.below(2048)));
  }
  if (has_mask) config.active[below(num_ranks)] = 1;
}

// Small and odd: up to 70 ranks now and then, so that sets of ranks need two words.
AnyCase any_case(uint64_t seed, PlannerKind kind) {
  Rng rng(seed);
  const auto below = [&rng](uint32_t bound) { return static_cast<int32_t>(rng.below(bound)); };
  AnyCase result;
  PlanConfig& config = result.config;
  config.planner = kind;
  config.objective = static_cast<Objective>(below(3));
  const bool many_ranks = below(6) == 0;
  config.dims = {.num_experts = 1 + below(many_ranks ? 150 : 24),
                 .num_ranks = 1 + below(many_ranks ? 70 : 9),
                 .replica_slots = below(4),
                 .block_rows = below(2) == 0 ? 1 : 1 + below(40)};
  config.lambda_blocks = below(20);
  config.slack_ppm = below(2) * below(200'000);
  config.min_copy_blocks = 1 + below(2) * below(6);
  config.min_rows_per_replica = 1 + below(2) * below(100);
  config.min_forward_rows = below(8) == 0 ? below(4000) : 0;
  fill_tables(rng, config);
  if (config.objective == Objective::kCost || below(2) == 0) config.cost = any_cost(rng);
  const std::vector<int32_t> owners =
      config.owner_of.empty() ? contiguous_owners(config.dims.num_experts, config.dims.num_ranks)
                              : config.owner_of;
  std::vector<int32_t> rows;
  for (int32_t p = 0; p < config.dims.num_ranks; ++p) {
    for (int32_t e = 0; e < config.dims.num_experts; ++e) {
      const bool is_dead = !config.active.empty() && config.active[owners[e]] == 0;
      const int32_t most = e % 7 == 3 ? 1 : e % 5 == 1 ? 300 : 25;
      rows.push_back(is_dead ? 0 : below(most));
    }
  }
  result.loads.assign(config.dims.num_ranks, config.dims.num_experts, rows);
  if (below(2) == 0) {
    for (int32_t i = 0; i < config.dims.num_ranks * config.dims.replica_slots; ++i) {
      result.resident.push_back(below(config.dims.num_experts + 1) - 1);
    }
  }
  return result;
}

// The planner's own objective, computed from the plan alone.
uint64_t objective_of(const AnyCase& any, const Plan& plan, const PlanReport& report) {
  const PlanConfig& config = any.config;
  if (config.objective == Objective::kCost) return *report.predicted_ns;
  const int64_t units = config.dims.block_rows / plan.header().block_rows;
  const int64_t lambda =
      config.objective == Objective::kBackward ? config.lambda_blocks * units : 0;
  std::vector<int64_t> work(config.dims.num_ranks, 0);
  for (int32_t e = 0; e < config.dims.num_experts; ++e) {
    for (const Instance& instance : plan.instances_of(e)) {
      work[instance.rank] += instance.num_blocks;
      if (instance.slot >= 0) work[plan.owner_of()[e]] += lambda;
    }
  }
  int64_t latest = 0;
  for (int32_t r = 0; r < config.dims.num_ranks; ++r) {
    if (!config.active.empty() && config.active[r] == 0) continue;
    const int64_t base = config.base_blocks.empty() ? 0 : config.base_blocks[r] * units;
    const int64_t speed = config.speed.empty() ? 1024 : config.speed[r];
    latest = std::max(latest, ((base + work[r]) * 1024 + speed - 1) / speed);
  }
  return static_cast<uint64_t>(latest);
}

void check_sizes(const AnyCase& any, const Plan& plan) {
  const int32_t beta = plan.header().block_rows;
  for (int32_t e = 0; e < any.config.dims.num_experts; ++e) {
    for (const Instance& instance : plan.instances_of(e)) {
      if (instance.slot < 0) continue;
      const int64_t rows =
          any.loads.rows_in_blocks(e, instance.first_block, instance.num_blocks, beta);
      RC_ASSERT(rows >= any.config.min_rows_per_replica);
      const size_t slot =
          size_t(instance.rank) * any.config.dims.replica_slots + size_t(instance.slot);
      const bool is_fresh = plan.slot_resident()[slot] == 0;
      if (is_fresh && any.config.planner != PlannerKind::kQuota) {
        RC_ASSERT(instance.num_blocks >= any.config.min_copy_blocks);
      }
    }
  }
}

void check_promises(PlannerKind kind, uint64_t seed) {
  const AnyCase any = any_case(seed, kind);
  const auto planner = make_planner(any.config);
  Plan plan, again;
  PlanReport report, ignored;
  planner->plan(any.loads, any.resident, plan, report);
  RC_ASSERT(report.has_plan());
  RC_ASSERT(check_plan(plan, any.loads, any.config, any.resident).empty());
  // Deterministic, whatever the planner did before.
  planner->plan(any_case(seed, kind).loads, any.resident, again, ignored);
  RC_ASSERT(again == plan);
  make_planner(any.config)->plan(any.loads, any.resident, again, ignored);
  RC_ASSERT(again == plan);

  RC_ASSERT(plan.header().objective == objective_of(any, plan, report));
  if (any.config.objective != Objective::kCost) {
    RC_ASSERT(plan.header().objective >= static_cast<uint64_t>(report.tau));
  }
  check_sizes(any, plan);

  AnyCase fixed = any;
  fixed.config.planner = PlannerKind::kFixed;
  const int32_t units = any.config.dims.block_rows / plan.header().block_rows;
  fixed.config.dims.block_rows = plan.header().block_rows;
  for (int32_t& base : fixed.config.base_blocks) base *= units;
  if (any.config.objective == Objective::kCost) {
    RC_ASSERT(*report.predicted_ns <= *report.predicted_fixed_ns);
  } else {
    const Planned placed = plan_once(fixed.config, any.loads);
    RC_ASSERT(plan.header().objective <= placed.plan.header().objective);
  }
  if (plan.header().flags & kPlanGateRefused) RC_ASSERT(plan.num_replicas() == 0);
}

RC_GTEST_PROP(PlannerProperties, megaflux_keeps_its_promises, ()) {
  check_promises(PlannerKind::kMegaflux, *rc::gen::arbitrary<uint64_t>());
}
RC_GTEST_PROP(PlannerProperties, paper_keeps_its_promises, ()) {
  check_promises(PlannerKind::kPaper, *rc::gen::arbitrary<uint64_t>());
}
RC_GTEST_PROP(PlannerProperties, quota_keeps_its_promises, ()) {
  check_promises(PlannerKind::kQuota, *rc::gen::arbitrary<uint64_t>());
}
RC_GTEST_PROP(PlannerProperties, fixed_keeps_its_promises, ()) {
  check_promises(PlannerKind::kFixed, *rc::gen::arbitrary<uint64_t>());
}

RC_GTEST_PROP(PlannerProperties, the_portfolio_is_never_worse_than_the_paper, ()) {
  AnyCase any = any_case(*rc::gen::arbitrary<uint64_t>(), PlannerKind::kMegaflux);
  any.config.objective = Objective::kForward;
  any.config.slack_ppm = 0;
  any.config.min_forward_rows = 0;
  const Planned ours = plan_once(any.config, any.loads, any.resident);
  any.config.planner = PlannerKind::kPaper;
  const Planned paper = plan_once(any.config, any.loads, any.resident);
  RC_ASSERT(ours.plan.header().objective <= paper.plan.header().objective);
}

RC_GTEST_PROP(PlannerProperties, a_plan_needs_the_totals_only, ()) {  // IC-13
  // Which rank the rows come from, and what stood in the table before, changes nothing.
  const AnyCase any = any_case(*rc::gen::arbitrary<uint64_t>(), PlannerKind::kMegaflux);
  const int32_t num_ranks = any.config.dims.num_ranks, num_experts = any.config.dims.num_experts;
  std::vector<int32_t> rows(static_cast<size_t>(num_ranks) * num_experts, 0);
  std::copy(any.loads.totals().begin(), any.loads.totals().end(),
            rows.end() - num_experts);  // all rows from the last rank
  LoadTable moved(num_ranks, num_experts, std::vector<int32_t>(rows.size(), 7));
  moved.assign(num_ranks, num_experts, rows);
  RC_ASSERT(plan_once(any.config, moved, any.resident).plan ==
            plan_once(any.config, any.loads, any.resident).plan);
}

TEST(PlannerProperties, IC_31_bytes_are_equal_over_a_thousand_runs_and_on_every_thread) {
  Rng rng(31);
  std::vector<int64_t> totals;
  for (int32_t e = 0; e < 64; ++e) totals.push_back(rng.below(e % 9 == 0 ? 9000 : 400));
  const LoadTable loads = loads_of(16, totals);
  PlanConfig config = row_config(PlannerKind::kMegaflux, 64, 16, 2);
  config.dims.block_rows = 16;
  const Plan expected = plan_once(config, loads).plan;
  ASSERT_GT(expected.num_replicas(), 0);
  std::vector<int32_t> differing(4, 0);
  {
    std::vector<std::jthread> threads;
    for (int32_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        const auto planner = make_planner(config);
        Plan plan;
        PlanReport report;
        for (int32_t run = 0; run < 250; ++run) {
          planner->plan(loads, {}, plan, report);
          differing[t] += !(plan == expected);
        }
      });
    }
  }
  EXPECT_EQ(differing, std::vector<int32_t>(4, 0));
}

}  // namespace
}  // namespace megaflux
