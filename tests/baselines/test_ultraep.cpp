// UltraEP's solver against its published cases.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "baselines/baseline_fixture.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/plan/baselines/ultraep.h"

namespace megaflux {
namespace {

struct Solved {
  UltraepOutcome outcome;
  std::vector<SearchReplica> replicas;
  std::vector<int64_t> loads;
};

Solved solve(const std::vector<int64_t>& totals, int32_t num_ranks, int32_t slots,
             UltraepOptions options = {}) {
  PlanConfig config = baseline_config(PlannerKind::kUltraep, totals, num_ranks, slots);
  config.owner_of = contiguous_owners(config.dims.num_experts, num_ranks);
  ProblemBuilder builder(config, 1);
  const LoadTable loads = loads_of(num_ranks, totals);
  builder.measure(loads);
  builder.arrange(loads, {}, 0);
  const DomainProblem& problem = builder.domains()[0];
  Solved solved;
  solved.replicas = {{.expert = 77, .rank = 77, .blocks = 77}};
  solved.outcome = UltraepSolver(options).solve(problem, solved.replicas);
  solved.loads.assign(problem.fixed_load.begin(), problem.fixed_load.end());
  for (SearchReplica& replica : solved.replicas) {
    solved.loads[problem.owner[replica.expert]] -= replica.blocks;
    solved.loads[replica.rank] += replica.blocks;
    replica.expert = problem.experts[replica.expert];
  }
  return solved;
}

// {expert, rank, rows} of every export, in order.
std::vector<std::vector<int32_t>> exports_of(const Solved& solved) {
  std::vector<std::vector<int32_t>> exports;
  for (const SearchReplica& r : solved.replicas) exports.push_back({r.expert, r.rank, r.blocks});
  return exports;
}

using Exports = std::vector<std::vector<int32_t>>;

TEST(Ultraep, case_A_needs_the_rounding_of_floats) {
  const Solved solved = solve({65536, 0, 0, 0}, 4, 1);
  EXPECT_EQ(solved.outcome.tau, 16548);
  EXPECT_EQ(solved.outcome.attempts, 1);
  EXPECT_EQ(exports_of(solved), (Exports{{0, 1, 16548}, {0, 2, 16548}, {0, 3, 15892}}));
}

TEST(Ultraep, case_B_succeeds_at_once) {
  const Solved solved = solve({2, 2, 13, 3, 2, 2, 5, 3}, 4, 1);
  EXPECT_EQ(solved.outcome.tau, 9);
  EXPECT_EQ(solved.outcome.attempts, 1);
  EXPECT_EQ(exports_of(solved), (Exports{{2, 0, 5}, {2, 2, 2}}));
  EXPECT_EQ(solved.loads, (std::vector<int64_t>{9, 9, 6, 8}));
}

TEST(Ultraep, case_D_succeeds_at_the_third_attempt) {
  const Solved solved = solve({8192, 4096, 2048, 1024, 512, 256, 128, 64}, 8, 1);
  EXPECT_EQ(solved.outcome.tau, 2225);
  EXPECT_EQ(solved.outcome.attempts, 3);
  EXPECT_EQ(exports_of(solved),
            (Exports{{0, 7, 2161}, {0, 6, 2097}, {0, 5, 1709}, {1, 4, 1713}, {1, 3, 158}}));
}

TEST(Ultraep, the_fallback_searches_four_ways) {
  // One slot each and an eightfold rank: no attempt near the mean can place enough exports of one
  // expert's rows, since three other ranks are above the mean as well.
  const Solved solved =
      solve({9000, 5000, 5000, 5000, 10, 10, 10, 10}, 8, 1, {.min_rows_per_replica = 1});
  EXPECT_EQ(solved.outcome.attempts, 4);
  EXPECT_EQ(*std::max_element(solved.loads.begin(), solved.loads.end()), solved.outcome.tau);
}

TEST(Ultraep, without_slots_nothing_moves_and_tau_is_the_largest_load) {
  const Solved solved = solve({500, 100, 60, 40}, 4, 0);
  EXPECT_TRUE(solved.replicas.empty());
  EXPECT_EQ(solved.outcome.tau, 500);
}

TEST(Ultraep, the_planner_counts_rows) {
  PlanConfig config = row_config(PlannerKind::kUltraep, 4, 4, 1);
  config.dims.block_rows = 128;
  const Planned planned = run_baseline(config, {65536, 0, 0, 0});
  EXPECT_EQ(planned.plan.header().block_rows, 1);
  EXPECT_EQ(planned.plan.header().objective, 16548u);
  EXPECT_EQ(planned.loads, (std::vector<int32_t>{16548, 16548, 16548, 15892}));
}

RC_GTEST_PROP(Ultraep, exports_bring_every_rank_to_tau, ()) {
  const int32_t num_ranks = *rc::gen::inRange(1, 12);
  const int32_t num_experts = *rc::gen::inRange(1, 40);
  const auto totals =
      *rc::gen::container<std::vector<int64_t>>(num_experts, rc::gen::inRange<int64_t>(0, 5000));
  RC_PRE(std::accumulate(totals.begin(), totals.end(), int64_t{0}) > 0);
  const Solved solved = solve(totals, num_ranks, *rc::gen::inRange(0, 4));
  RC_ASSERT(*std::max_element(solved.loads.begin(), solved.loads.end()) <= solved.outcome.tau);
}

}  // namespace
}  // namespace megaflux
