// EPLB's rearrangement, placements as plans, and LPLB's solvers.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "baselines/baseline_fixture.h"
#include "megaflux/plan/baselines/eplb.h"
#include "megaflux/plan/baselines/lplb.h"
#include "megaflux/plan/baselines/placement.h"

namespace megaflux {
namespace {

TEST(Eplb, hierarchical_golden_tables) {
  const EplbShape shape{.num_places = 16, .num_groups = 4, .num_nodes = 2, .num_gpus = 8};
  EXPECT_EQ(rearrange_eplb(std::vector<int64_t>{90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86},
                           shape),
            (std::vector<int32_t>{5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1}));
  EXPECT_EQ(rearrange_eplb(
                std::vector<int64_t>{20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27}, shape),
            (std::vector<int32_t>{7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1}));
}

TEST(Eplb, the_example_of_the_header) {
  EXPECT_EQ(rearrange_eplb(std::vector<int64_t>{6, 2, 1}, {.num_places = 4, .num_gpus = 2}),
            (std::vector<int32_t>{0, 1, 0, 2}));
}

TEST(Eplb, groups_that_nodes_do_not_divide_are_one_group) {
  const std::vector<int64_t> weights = {9, 3, 8, 1, 7, 5};
  EXPECT_EQ(
      rearrange_eplb(weights, {.num_places = 8, .num_groups = 3, .num_nodes = 2, .num_gpus = 4}),
      rearrange_eplb(weights, {.num_places = 8, .num_gpus = 4}));
}

TEST(Eplb, IC_01_two_copies_on_one_gpu_become_one_instance) {
  // Two experts on two GPUs of three places: the hot one fills five of them.
  const std::vector<int64_t> totals = {1000, 1};
  const std::vector<int32_t> places = rearrange_eplb(totals, {.num_places = 6, .num_gpus = 2});
  EXPECT_EQ(std::count(places.begin(), places.end(), 0), 5);
  EXPECT_GE(std::count(places.begin(), places.begin() + 3, 0), 2);
  const Planned planned = run_baseline(baseline_config(PlannerKind::kEplb, totals, 2, 2), totals);
  EXPECT_EQ(planned.plan.instances_of(0).size(), 2u);
  EXPECT_EQ(planned.loads[0] + planned.loads[1], 1001);
  EXPECT_LE(planned.plan.header().max_blocks, 601);
}

TEST(Eplb, IC_01_reported_size) {
  std::vector<int64_t> totals;
  for (int32_t e = 0; e < 256; ++e) totals.push_back(e == 77 ? 90'000 : 100 + (e * 37) % 400);
  PlanConfig config = baseline_config(PlannerKind::kEplb, totals, 32, 1);
  config.baselines.eplb.num_groups = 16;
  config.baselines.eplb.num_nodes = 2;
  const Planned planned = run_baseline(config, totals);  // legal: one instance a rank
  EXPECT_LE(planned.plan.instances_of(77).size(), 16u) << "copies stay on the node";
}

TEST(Placement, owners_replicas_and_moves_of_the_example) {
  const std::vector<PlacedCopy> copies = {{0, 0}, {2, 0}, {0, 0}, {1, 1}, {0, 1}, {2, 1}};
  const std::vector<int32_t> owners = {0, 0, 1};
  Placement placement;
  placement.assign(copies, owners);
  EXPECT_EQ(placement.copy_begin, (std::vector<int32_t>{0, 3, 4, 6}));
  EXPECT_EQ(placement.copy_rank, (std::vector<int32_t>{0, 0, 1, 1, 0, 1}));
  EXPECT_EQ(placement.owner_of, (std::vector<int32_t>{0, 1, 0}));
  EXPECT_EQ(slots_needed(placement, 2), 2);
  EXPECT_EQ(moved_owners(placement, owners), 2);
}

TEST(Placement, an_expert_without_places_stays) {
  Placement placement;
  placement.assign(std::vector<PlacedCopy>{{2, 0}}, std::vector<int32_t>{3, 1, 2});
  EXPECT_EQ(placement.owner_of, (std::vector<int32_t>{3, 1, 0}));
  EXPECT_EQ(placement.copy_begin, (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(Placement, rows_by_selection) {
  // Copies on ranks {0, 1, 2}; sources send 4, 1, 0 and 5 rows; nodes are {0, 1} and {2, 3}.
  Placement placement;
  placement.assign(std::vector<PlacedCopy>{{0, 0}, {0, 1}, {0, 2}}, std::vector<int32_t>{0});
  const LoadTable loads(4, 1, std::vector<int32_t>{4, 1, 0, 5});
  const auto split = [&](CopySelection selection, int32_t num_nodes) {
    std::vector<int32_t> rows(3, -9);
    split_rows(placement, loads, selection, num_nodes, rows);
    return rows;
  };
  EXPECT_EQ(split(CopySelection::kRoundRobin, 1), (std::vector<int32_t>{4, 3, 3}));
  EXPECT_EQ(split(CopySelection::kEachSource, 1),
            (std::vector<int32_t>{2 + 1 + 2, 1 + 0 + 2, 1 + 1}));
  EXPECT_EQ(split(CopySelection::kNearest, 2), (std::vector<int32_t>{4, 1, 5}));
  EXPECT_EQ(split(CopySelection::kNearest, 1), (std::vector<int32_t>{4 + 2, 1 + 2, 1}));
}

TEST(Placement, a_history_is_placed_once_and_needs_no_copies_in_a_step) {
  const std::vector<int64_t> history = {100, 1, 1, 1};
  PlanConfig config = baseline_config(PlannerKind::kEplb, history, 2, 1);
  config.baselines.history = history;
  config.cost =
      CostModel{.block_ps = 1'000'000, .weight_bytes = 1'000'000, .link_bytes_per_us = 1'000};
  const auto planner = make_planner(config);
  Plan first, second;
  PlanReport report;
  planner->plan(loads_of(2, history), {}, first, report);
  EXPECT_EQ(*report.predicted_ns, 68'000u) << "34 + 33 + 1 rows of 1 us, no copy";
  planner->plan(loads_of(2, {1, 1, 1, 100}), {}, second, report);
  EXPECT_TRUE(std::ranges::equal(first.owner_of(), second.owner_of()));
  EXPECT_GE(second.header().max_blocks, 100);
  config.baselines.history.clear();
  make_planner(config)->plan(loads_of(2, history), {}, second, report);
  EXPECT_EQ(first, second);
  EXPECT_GT(*report.predicted_ns, 68'000u) << "a copy of 1 ms";
}

TEST(Lplb, exact_example_of_the_header) {
  const LplbProblem problem{.fixed = {10, 30}, .variables = {{.owner = 0, .host = 1, .rows = 80}}};
  EXPECT_EQ(solve_lplb_exact(problem), (std::vector<int64_t>{50}));
}

TEST(Lplb, the_planner_with_the_shipped_solver) {
  // Five steps on the cube, by the exact load, end 4 % above the optimum.
  std::vector<int64_t> totals;
  for (int32_t e = 0; e < 64; ++e) totals.push_back(16'384 / (e + 1));
  PlanConfig config = baseline_config(PlannerKind::kLplb, totals, 8, 2);
  const Figures exact = figures_of(config, totals);
  config.baselines.lplb.solver = LplbSolver::kInteriorPoint;
  const Figures shipped = figures_of(config, totals);
  EXPECT_EQ(exact.imbalance, 1.111);
  EXPECT_EQ(shipped.imbalance, 1.156);
}

TEST(Lplb, a_chain_carries_rows_on) {
  // Rank 0 may give to rank 1 only, rank 1 to rank 2 only.
  const LplbProblem problem{
      .fixed = {0, 0, 0},
      .variables = {{.owner = 0, .host = 1, .rows = 90}, {.owner = 1, .host = 2, .rows = 30}}};
  EXPECT_EQ(solve_lplb_exact(problem), (std::vector<int64_t>{45, 0}));
}

TEST(Lplb, the_interior_point_comes_near_the_optimum_or_halves) {
  const LplbProblem even{.fixed = {10, 30}, .variables = {{.owner = 0, .host = 1, .rows = 80}}};
  const LplbShares shares = solve_lplb_interior_point(even, 80);
  if (shares.accepted) {
    EXPECT_NEAR(shares.kept[0], 0.625, 0.15);
  } else {
    EXPECT_EQ(shares.kept[0], 0.5f);
  }
  // Everything on one rank, and its only host far above: no five steps settle that.
  const LplbProblem odd{.fixed = {0, 4'000'000'000},
                        .variables = {{.owner = 0, .host = 1, .rows = 1}}};
  const LplbShares fallen = solve_lplb_interior_point(odd, 1);
  EXPECT_FALSE(fallen.accepted);
  EXPECT_EQ(fallen.kept, std::vector<float>{0.5f});
}

// No split of the variables has a smaller maximum: rows of every subset of ranks that cannot leave
// it are a lower bound, here checked over all subsets.
RC_GTEST_PROP(Lplb, exact_meets_the_bound_of_the_worst_subset, ()) {
  const int32_t num_ranks = *rc::gen::inRange(1, 7);
  LplbProblem problem;
  problem.fixed =
      *rc::gen::container<std::vector<int64_t>>(num_ranks, rc::gen::inRange<int64_t>(0, 50));
  const int32_t num_variables = num_ranks == 1 ? 0 : *rc::gen::inRange(0, 10);
  for (int32_t i = 0; i < num_variables; ++i) {
    const int32_t owner = *rc::gen::inRange(0, num_ranks);
    const int32_t host = (owner + *rc::gen::inRange(1, num_ranks)) % num_ranks;
    problem.variables.push_back({owner, host, *rc::gen::inRange<int64_t>(0, 60)});
  }
  const std::vector<int64_t> kept = solve_lplb_exact(problem);
  std::vector<int64_t> load = problem.fixed;
  for (size_t i = 0; i < kept.size(); ++i) {
    const LplbVariable& v = problem.variables[i];
    RC_ASSERT(kept[i] >= 0 && kept[i] <= v.rows);
    load[v.owner] += kept[i];
    load[v.host] += v.rows - kept[i];
  }
  int64_t bound = 0;
  for (int32_t set = 1; set < 1 << num_ranks; ++set) {
    int64_t stuck = 0, size = 0;
    for (int32_t r = 0; r < num_ranks; ++r) {
      if (set >> r & 1) stuck += problem.fixed[r], ++size;
    }
    for (const LplbVariable& v : problem.variables) {
      if ((set >> v.owner & 1) && (set >> v.host & 1)) stuck += v.rows;
    }
    bound = std::max(bound, (stuck + size - 1) / size);
  }
  RC_ASSERT(*std::max_element(load.begin(), load.end()) == bound);
}

}  // namespace
}  // namespace megaflux
