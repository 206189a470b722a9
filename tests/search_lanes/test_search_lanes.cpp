// A search by many lanes ends with the replicas, in the order, that one lane finds.
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "megaflux/base/rng.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/plan/problem.h"
#include "megaflux/plan/search/members.h"
#include "megaflux/plan/search/quota.h"
#include "megaflux/plan/search_state.h"
#include "plan/planner_fixture.h"
#include "search_lanes/barrier_lanes.h"

namespace megaflux {

bool operator==(const SearchReplica& a, const SearchReplica& b) {
  return a.expert == b.expert && a.rank == b.rank && a.blocks == b.blocks;
}

namespace {

using Lanes = BarrierLanes<2, 6>;  // two threads: more would wait for cores
using PlainLanes = BarrierLanes<2, 6, true>;

// What the lanes of a search share.
struct LaneMemory {
  explicit LaneMemory(const DomainProblem& problem)
      : ranks(4 * Lanes::kMaxRanks, -7),
        experts(problem.num_experts),
        more_holders(static_cast<size_t>(problem.num_experts) * (problem.rank_words - 1)),
        replicas(2 * static_cast<size_t>(problem.num_ranks) * problem.replica_slots) {}
  SearchMemory view() {
    return {.gap = ranks.data(),
            .capacity = ranks.data() + Lanes::kMaxRanks,
            .slots_left = ranks.data() + 2 * Lanes::kMaxRanks,
            .scratch = ranks.data() + 3 * Lanes::kMaxRanks,
            .experts = experts.data(),
            .more_holders = more_holders.data(),
            .replicas = replicas.data()};
  }
  std::vector<int32_t> ranks;
  std::vector<SearchExpert> experts;
  std::vector<uint64_t> more_holders;
  std::vector<SearchReplica> replicas;
};

// The replicas that `search(state)` leaves, found by several lanes.
template <class SomeLanes, typename Search>
std::vector<SearchReplica> search_by_lanes(const DomainProblem& problem, Search search) {
  LaneMemory memory(problem);
  int32_t num_replicas = -1;
  SomeLanes::run([&] {
    SearchView<SomeLanes> state(SomeLanes{}, problem.view(), memory.view());
    state.reset();
    search(state);
    if (SomeLanes::is_writer()) num_replicas = state.num_replicas();
  });
  memory.replicas.resize(static_cast<size_t>(num_replicas));
  return memory.replicas;
}

template <typename Search>
void expect_equal_searches(const DomainProblem& problem, Search search) {
  SearchState single;
  single.attach(problem);
  search(single);
  const std::vector<SearchReplica> found(single.replicas().begin(), single.replicas().end());
  EXPECT_EQ(found, search_by_lanes<Lanes>(problem, search));
  if (problem.has_resident || problem.has_least) return;
  EXPECT_EQ(found, search_by_lanes<PlainLanes>(problem, search)) << "plain lanes";
}

PlanConfig any_config(Rng& rng) {
  const auto below = [&rng](uint32_t bound) { return static_cast<int32_t>(rng.below(bound)); };
  PlanConfig config;
  config.dims = {8 + below(40), 2 + below(Lanes::kMaxRanks - 1), 1 + below(3), 4};
  config.owner_of = contiguous_owners(config.dims.num_experts, config.dims.num_ranks);
  if (below(2) == 0) {
    for (int32_t& owner : config.owner_of) owner = below(config.dims.num_ranks);
  }
  if (below(3) == 0) config.objective = Objective::kBackward;
  config.lambda_blocks = below(4);
  if (below(3) == 0) config.min_copy_blocks = 1 + below(5);
  if (below(3) == 0) config.slack_ppm = 30'000;
  if (below(3) == 0) {
    for (int32_t r = 0; r < config.dims.num_ranks; ++r) {
      config.speed.push_back(static_cast<uint16_t>(600 + below(1000)));
      config.base_blocks.push_back(below(10));
    }
  }
  return config;
}

std::vector<int64_t> any_totals(const PlanConfig& config, Rng& rng) {
  std::vector<int64_t> totals;
  for (int32_t e = 0; e < config.dims.num_experts; ++e) {
    const double u = rng.uniform();
    totals.push_back(static_cast<int64_t>(400 * u * u * u));
  }
  return totals;
}

void expect_equal_members(const DomainProblem& problem, int round, Rng& rng) {
  const auto member = static_cast<int32_t>(rng.below(kNumMembers));
  expect_equal_searches(problem, [&](auto& state) {
    const MemberSearch search = member_search(member, problem.tau, 2 * problem.tau, round % 2 == 0);
    if (search.target >= 0) run_member(search, state);
    shorten(state);
  });
}

// A lane for every expert of an owner, which is how most problems run on a device.
TEST(SearchLanes, as_many_lanes_as_an_owner_has_experts) {
  Rng rng(18);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    PlanConfig config;
    const auto num_ranks = static_cast<int32_t>(3 + rng.below(Lanes::kMaxRanks - 2));
    config.dims = {2 * num_ranks - static_cast<int32_t>(rng.below(3)), num_ranks,
                   static_cast<int32_t>(1 + rng.below(3)), 4};
    config.owner_of = contiguous_owners(config.dims.num_experts, num_ranks);
    ProblemBuilder builder(config, config.dims.block_rows);
    const LoadTable loads = loads_of(num_ranks, any_totals(config, rng));
    ASSERT_TRUE(builder.measure(loads));
    builder.arrange(loads, {}, 0);
    const DomainProblem& problem = builder.domains()[0];
    ASSERT_LE(problem.most_owned, Lanes::kCount);
    expect_equal_members(problem, round, rng);
    if (HasFailure()) return;
  }
}

TEST(SearchLanes, any_number_of_lanes_finds_the_same_replicas) {
  Rng rng(17);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const PlanConfig config = any_config(rng);
    const std::vector<int64_t> totals = any_totals(config, rng);
    std::vector<int32_t> resident;
    for (int32_t i = 0; i < config.dims.num_ranks * config.dims.replica_slots; ++i) {
      resident.push_back(rng.below(3) > 0 ? -1
                                          : static_cast<int32_t>(rng.below(
                                                static_cast<uint32_t>(config.dims.num_experts))));
    }
    ProblemBuilder builder(config, config.dims.block_rows);
    const LoadTable loads = loads_of(config.dims.num_ranks, totals);
    ASSERT_TRUE(builder.measure(loads));
    builder.arrange(
        loads, round % 3 == 0 ? std::span<const int32_t>(resident) : std::span<const int32_t>(), 0);
    const DomainProblem& problem = builder.domains()[0];
    if (problem.total_blocks == 0) continue;
    expect_equal_members(problem, round, rng);
    if (HasFailure()) return;
    expect_equal_searches(problem, [&](auto& state) {
      search_quota(config.slack_ppm, problem.max_fixed_finish(), state);
    });
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace megaflux
