// The parts of a search, one by one: the problem, the state, the two families, and refining.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "megaflux/plan/problem.h"
#include "megaflux/plan/search/groups.h"
#include "megaflux/plan/search/paper.h"
#include "megaflux/plan/search/refine.h"
#include "megaflux/plan/search_state.h"
#include "plan/planner_fixture.h"

namespace megaflux {
namespace {

// A problem with everything it refers to, in rows, contiguous owners by default.
struct Problem {
  PlanConfig config;
  LoadTable loads;
  ProblemBuilder builder;
  SearchState state;

  Problem(PlanConfig chosen, const std::vector<int64_t>& totals,
          const std::vector<int32_t>& resident = {})
      : config(std::move(chosen)),
        loads(loads_of(config.dims.num_ranks, totals)),
        builder(config, config.dims.block_rows) {
    builder.measure(loads);
    for (size_t d = 0; d < builder.domains().size(); ++d) builder.arrange(loads, resident, d);
    state.attach(domain());
  }
  const DomainProblem& domain() const { return builder.domains()[0]; }
  std::vector<int32_t> search_loads() const {
    std::vector<int32_t> result;
    for (int32_t r = 0; r < domain().num_ranks; ++r) result.push_back(state.load(r));
    return result;
  }
  int32_t num_replicas() const {
    return static_cast<int32_t>(
        std::count_if(state.replicas().begin(), state.replicas().end(),
                      [](const SearchReplica& replica) { return replica.blocks > 0; }));
  }
};

PlanConfig rows_config(std::vector<int32_t> owner_of, int32_t num_ranks, int32_t slots) {
  PlanConfig config;
  config.dims = {static_cast<int32_t>(owner_of.size()), num_ranks, slots, 1};
  config.owner_of = std::move(owner_of);
  return config;
}

std::vector<int32_t> one_each(int32_t num_ranks) {
  std::vector<int32_t> owner_of;
  for (int32_t r = 0; r < num_ranks; ++r) owner_of.push_back(r);
  return owner_of;
}

TEST(SearchProblem, leaves_out_inactive_ranks_and_empty_experts) {
  PlanConfig config = rows_config({0, 0, 2, 2}, 3, 1);
  config.active = {1, 0, 1};
  const Problem problem(config, {5, 7, 0, 3});
  const DomainProblem& domain = problem.domain();
  EXPECT_EQ(domain.ranks, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(domain.experts, (std::vector<int32_t>{1, 0, 3}));
  EXPECT_EQ(domain.first_owned, (std::vector<int32_t>{0, 2, 3}));
  EXPECT_EQ(domain.blocks, (std::vector<int32_t>{7, 5, 3}));
  EXPECT_EQ(domain.fixed_load, (std::vector<int32_t>{12, 3}));
  EXPECT_EQ(domain.tau, 8);
}

TEST(SearchProblem, finish_and_capacity_are_inverse) {
  PlanConfig config = rows_config({0, 1, 2}, 3, 1);
  config.speed = {1024, 700, 1500};
  config.base_blocks = {3, 0, 11};
  const Problem problem(config, {50, 400, 90});
  const DomainProblem& domain = problem.domain();
  for (int32_t r = 0; r < 3; ++r) {
    for (int64_t finish = 0; finish < 600; ++finish) {
      const int32_t most = domain.view().capacity(r, finish);
      EXPECT_TRUE(most == 0 || domain.finish(r, most) <= finish);
      EXPECT_TRUE(most == domain.total_blocks || domain.finish(r, most + 1) > finish);
    }
  }
}

TEST(SearchProblem, scaling_rounds_up_once) {
  EXPECT_EQ(scaled_up(16384, 10'000), 16548);
  EXPECT_EQ(scaled_up(8, 10'000), 9);
  EXPECT_EQ(scaled_up(100, 10'000), 101);
  EXPECT_EQ(scaled_up(0, 10'000), 0);
  EXPECT_EQ(scaled_up(123'456'789'012, 0), 123'456'789'012);
  EXPECT_EQ(scaled_up(2'000'001, 500'000), 3'000'002);
}

TEST(SearchProblem, least_sizes_count_the_partial_block_out) {
  PlanConfig config = rows_config({0, 0, 1}, 2, 1);
  config.dims.block_rows = 10;
  config.min_rows_per_replica = 15;
  config.min_copy_blocks = 3;
  std::vector<int32_t> resident = {-1, 1};
  const Problem problem(config, {101, 58, 3}, resident);
  const DomainProblem& domain = problem.domain();
  // Expert 0: its last block has 1 row, so 15 rows need 3 blocks in the worst place; expert 1: 8
  // rows, so 2 blocks do; a fresh copy needs 3.
  EXPECT_EQ(domain.least_present, (std::vector<int32_t>{3, 2, 3}));
  EXPECT_EQ(domain.least_fresh, (std::vector<int32_t>{3, 3, 3}));
  EXPECT_TRUE(domain.view().is_resident(1, 1));
  EXPECT_EQ(domain.view().least_blocks(1, 1), 2);
}

TEST(SearchState, opening_adding_and_dropping_are_exact_inverses) {
  PlanConfig config = rows_config({0, 0, 1, 2}, 3, 2);
  config.objective = Objective::kBackward;
  config.lambda_blocks = 4;
  Problem problem(config, {70, 20, 15, 3});
  SearchState& state = problem.state;
  state.start(40);
  EXPECT_EQ(state.gap(0), 50);
  const int32_t i = state.open(0, 1, 11);
  EXPECT_EQ(state.gap(0), 50 - 11 + 4) << "lambda is charged to the owner";
  EXPECT_EQ(state.gap(1), 15 + 11 - 40);
  EXPECT_EQ(state.slots_left(1), 1);
  EXPECT_TRUE(state.holds(0, 1));
  const int32_t j = state.open(0, 2, 5);
  state.add(i, 3);
  EXPECT_EQ(state.own_left(0), 70 - 11 - 5 - 3);
  EXPECT_EQ(state.find(0, 1), i);
  EXPECT_EQ(state.find(0, 2), j);
  state.drop(i);
  EXPECT_EQ(state.find(0, 1), -1);
  EXPECT_EQ(state.find(0, 2), j);
  EXPECT_FALSE(state.holds(0, 1));
  state.drop(j);
  EXPECT_EQ(problem.search_loads(), (std::vector<int32_t>{90, 15, 3}));
  EXPECT_EQ(state.own_left(0), 70);
  EXPECT_EQ(state.slots_left(2), 2);
  state.open(3, 0, 2);
  state.start(40);
  EXPECT_FALSE(state.holds(3, 0));
  EXPECT_EQ(state.own_left(3), 3);
  EXPECT_EQ(problem.search_loads(), (std::vector<int32_t>{90, 15, 3}));
}

TEST(SearchGroups, follows_the_example_of_its_header) {
  Problem problem(rows_config(one_each(8), 8, 1), {600, 560, 120, 120, 20, 10, 10, 10});
  search_groups(DonorRule::kLargestExcess, ReceiverRule::kLargestDeficit, 182, problem.state);
  const std::vector<std::array<int32_t, 3>> expected = {
      {0, 5, 172}, {1, 6, 172}, {0, 7, 172}, {1, 4, 162}, {0, 2, 62}, {1, 3, 62}, {0, 1, 18}};
  ASSERT_EQ(problem.state.replicas().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const SearchReplica& replica = problem.state.replicas()[i];
    EXPECT_EQ((std::array{replica.expert, replica.rank, replica.blocks}), expected[i]) << i;
  }
  EXPECT_EQ(max_finish(problem.state), 182);
}

TEST(SearchGroups, smallest_cover_leaves_large_deficits_to_others) {
  // Rank 0 is 10 above 50; rank 1 lacks 12, rank 2 lacks 40.
  const std::vector<int64_t> totals = {60, 38, 10};
  Problem problem(rows_config(one_each(3), 3, 1), totals);
  search_groups(DonorRule::kLargestExcess, ReceiverRule::kSmallestCover, 50, problem.state);
  EXPECT_EQ(problem.search_loads(), (std::vector<int32_t>{48, 50, 10}));
  search_groups(DonorRule::kLargestExcess, ReceiverRule::kLargestDeficit, 50, problem.state);
  EXPECT_EQ(problem.search_loads(), (std::vector<int32_t>{20, 38, 50}));
}

TEST(SearchGroups, takes_the_smallest_expert_that_covers_and_needs_no_copy_if_there_is_one) {
  const std::vector<int32_t> owner_of = {0, 0, 0, 1};
  const std::vector<int64_t> totals = {90, 60, 55, 5};  // at 60 rank 1 lacks 55
  Problem problem(rows_config(owner_of, 2, 1), totals);
  search_groups(DonorRule::kLargestExcess, ReceiverRule::kLargestDeficit, 60, problem.state);
  ASSERT_FALSE(problem.state.replicas().empty());
  EXPECT_EQ(problem.domain().experts[problem.state.replicas()[0].expert], 2) << "55 covers 55";
  std::vector<int32_t> resident = {-1, 1};
  Problem holding(rows_config(owner_of, 2, 1), totals, resident);
  search_groups(DonorRule::kLargestExcess, ReceiverRule::kLargestDeficit, 60, holding.state);
  EXPECT_EQ(holding.domain().experts[holding.state.replicas()[0].expert], 1);
}

TEST(SearchGroups, lambda_forbids_copies_that_take_no_more_than_they_cost) {
  PlanConfig config = rows_config(one_each(3), 3, 1);
  config.objective = Objective::kBackward;
  config.lambda_blocks = 9;
  Problem problem(config, {60, 41, 40});  // at 50 rank 1 lacks 9, rank 2 lacks 10
  search_groups(DonorRule::kLargestExcess, ReceiverRule::kLargestDeficit, 50, problem.state);
  EXPECT_EQ(problem.num_replicas(), 1);
  EXPECT_GE(problem.state.find(0, 2), 0);
  EXPECT_EQ(problem.search_loads(), (std::vector<int32_t>{60 - 10 + 9, 41, 50}));
}

TEST(SearchPaper, follows_the_example_of_its_header) {
  Problem problem(rows_config({0, 0, 1, 1, 2, 2, 3, 3}, 4, 2), {9, 5, 7, 3, 3, 2, 2, 1});
  search_paper(DonorOrder::kOverload, CopiesPerRound::kOne, problem.state);
  EXPECT_EQ(problem.search_loads(), (std::vector<int32_t>(4, 8)));
  const std::vector<std::array<int32_t, 3>> expected = {{0, 3, 5}, {2, 2, 3}, {1, 1, 1}};
  ASSERT_EQ(problem.state.replicas().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const SearchReplica& replica = problem.state.replicas()[i];
    EXPECT_EQ(problem.domain().experts[replica.expert], expected[i][0]) << i;
    EXPECT_EQ(replica.rank, expected[i][1]) << i;
    EXPECT_EQ(replica.blocks, expected[i][2]) << i;
  }
}

TEST(SearchPaper, the_number_of_copies_a_round_changes_which_experts_are_spread) {
  // One: expert 0 gets a copy, then expert 1. Several: expert 0 alone fills both ranks.
  const std::vector<int64_t> totals = {60, 55, 5, 5, 5};
  Problem problem(rows_config({0, 0, 1, 2, 2}, 3, 2), totals);
  search_paper(DonorOrder::kOverload, CopiesPerRound::kOne, problem.state);
  const int32_t second = problem.state.replicas()[1].expert;
  search_paper(DonorOrder::kOverload, CopiesPerRound::kSeveral, problem.state);
  EXPECT_NE(second, problem.state.replicas()[1].expert);
  EXPECT_EQ(problem.state.replicas()[1].expert, problem.state.replicas()[0].expert);
}

TEST(SearchPaper, receivers_that_hold_the_expert_come_first) {
  std::vector<int32_t> resident = {-1, 0, -1};
  Problem problem(rows_config(one_each(3), 3, 1), {90, 20, 10}, resident);  // tau 40
  search_paper(DonorOrder::kOverload, CopiesPerRound::kSeveral, problem.state);
  EXPECT_EQ(problem.state.replicas()[0].rank, 1) << "rank 2 is lighter, rank 1 holds the expert";
}

TEST(SearchRefine, trim_drops_what_fits_elsewhere_and_nothing_else) {
  Problem problem(rows_config({0, 1, 2}, 3, 2), {15, 9, 5});
  SearchState& state = problem.state;
  state.start(10);
  state.open(0, 2, 5);  // loads 10, 9, 10
  state.open(0, 1, 1);  // loads 9, 10, 10
  trim(10, state);
  EXPECT_EQ(problem.num_replicas(), 1) << "the owner takes the single block back";
  EXPECT_EQ(problem.search_loads(), (std::vector<int32_t>{10, 9, 10}));
  trim(9, state);
  EXPECT_EQ(problem.num_replicas(), 1);
}

TEST(SearchRefine, trim_counts_the_lambda_that_a_dropped_replica_frees) {
  PlanConfig config = rows_config(one_each(2), 2, 1);
  config.objective = Objective::kBackward;
  config.lambda_blocks = 6;
  Problem problem(config, {30, 5});
  problem.state.start(30);
  problem.state.open(0, 1, 7);  // loads 23 + 6 and 12
  trim(29, problem.state);
  EXPECT_EQ(problem.num_replicas(), 1) << "back on its owner it would be 30";
  trim(30, problem.state);
  EXPECT_EQ(problem.num_replicas(), 0);
  EXPECT_EQ(problem.search_loads(), (std::vector<int32_t>{30, 5}));
}

TEST(SearchRefine, level_halves_the_distance_until_it_stops) {
  Problem problem(rows_config({0, 1, 2}, 3, 1), {30, 3, 9});
  SearchState& state = problem.state;
  state.start(14);
  state.open(0, 1, 1);
  state.open(0, 2, 1);  // loads 28, 4, 10, tau 14
  level(state);
  EXPECT_EQ(max_finish(state), 14);
  EXPECT_EQ(problem.num_replicas(), 2);
}

TEST(SearchRefine, shorten_removes_a_detour_and_keeps_every_load) {
  // 0 -> 1 -> 2: rank 1 hosts 4 of expert 0 and gives 4 of its own away.
  Problem problem(rows_config(one_each(3), 3, 1), {20, 10, 2});
  SearchState& state = problem.state;
  state.start(16);
  state.open(0, 1, 4);
  state.open(1, 2, 4);
  const std::vector<int32_t> before = problem.search_loads();
  shorten(state);
  EXPECT_EQ(problem.search_loads(), before);
  EXPECT_EQ(problem.num_replicas(), 1);
  EXPECT_EQ(state.find(0, 1), -1);
  ASSERT_GE(state.find(0, 2), 0);
  EXPECT_EQ(state.replicas()[state.find(0, 2)].blocks, 4);
}

}  // namespace
}  // namespace megaflux
