// The searches of one domain on one block: a warp a search, the best plan of all of them into the
// drafts. The same members, scores and order of preference as on the host (portfolio_planner.cpp,
// candidate.h).
#pragma once

#include <cstdint>

#include "megaflux/plan/candidate.h"
#include "megaflux/plan/cost_rules.h"
#include "megaflux/plan/measure_device.cuh"
#include "megaflux/plan/planner_memory_device.cuh"
#include "megaflux/plan/search/members.h"
#include "megaflux/plan/search/quota.h"
#include "megaflux/plan/search/warp_lanes_device.cuh"

namespace megaflux {

__device__ inline MemberRange members_of(const DevicePlannerParams& params) {
  if (params.planner == PlannerKind::kQuota) return {0, 1};
  return first_wave(params.planner == PlannerKind::kPaper, params.objective == Objective::kForward);
}

// What the search asks of local rank `r` (fill_rank_costs, one rank).
template <class Lanes>
__device__ RankCost rank_cost(const SearchView<Lanes>& state, int32_t units, int32_t r) {
  const ProblemView& p = state.problem();
  RankCost cost;
  cost.owned_blocks = cost.load_blocks = p.fixed_load[r];
  MF_UNROLL(1)
  for (int32_t i = 0; i < state.num_replicas(); ++i) {
    const SearchReplica replica = state.replica(i);
    if (replica.blocks == 0) continue;
    const int32_t is_fresh = p.is_resident(replica.expert, replica.rank) ? 0 : 1;
    if (p.owner[replica.expert] == r) {
      cost.owned_blocks -= replica.blocks;
      cost.load_blocks -= replica.blocks;
      cost.copies_out += is_fresh;
      cost.replicas_out += 1;
    }
    if (replica.rank == r) {
      cost.load_blocks += replica.blocks;
      cost.copies_in += is_fresh;
      cost.replicas_in += 1;
    }
  }
  const int64_t unit = units;
  cost.finish_blocks = ceil_div(p.finish(r, static_cast<int32_t>(cost.load_blocks)), unit);
  cost.load_blocks = ceil_div(cost.load_blocks, unit);
  cost.owned_blocks = ceil_div(cost.owned_blocks, unit);
  return cost;
}

// Predicted time of the domain, planning included.
template <class Lanes>
__device__ uint64_t predict_ns(const DevicePlannerParams& params, const SearchView<Lanes>& state) {
  uint64_t slowest = 0;
  for (int32_t r = Lanes::first(); r < state.problem().num_ranks; r += Lanes::kCount) {
    const uint64_t ns = rank_time_ns(params.cost, rank_cost(state, params.units, r));
    slowest = ns > slowest ? ns : slowest;
  }
  // As signed numbers the order of the upper half would be wrong; it is far beyond any time.
  const auto high = __reduce_max_sync(kWholeWarp, static_cast<uint32_t>(slowest >> 32));
  const bool is_slowest = static_cast<uint32_t>(slowest >> 32) == high;
  const auto low = __reduce_max_sync(kWholeWarp, is_slowest ? static_cast<uint32_t>(slowest) : 0u);
  return ceil_saturated(Wide(static_cast<uint64_t>(high) << 32 | low) + params.cost.plan_ns, 1);
}

template <class Lanes>
__device__ CandidateScore score_search(const DevicePlannerParams& params,
                                       const SearchView<Lanes>& state, int32_t member) {
  const ProblemView& p = state.problem();
  int32_t copies = 0, moved = 0;
  MF_UNROLL(1)
  for (int32_t i = Lanes::first(); i < state.num_replicas(); i += Lanes::kCount) {
    const SearchReplica replica = state.replica(i);
    if (replica.blocks == 0) continue;
    copies += p.is_resident(replica.expert, replica.rank) ? 0 : 1;
    moved += replica.blocks;
  }
  CandidateScore score;
  score.member = member;
  score.copies = __reduce_add_sync(kWholeWarp, copies);
  score.moved_blocks = __reduce_add_sync(kWholeWarp, moved);
  bool is_cost = false;
  if constexpr (Lanes::kHasCosts) is_cost = params.objective == Objective::kCost;
  if (is_cost) {
    if constexpr (Lanes::kHasCosts) score.objective = score.reached = predict_ns(params, state);
  } else {
    score.objective = static_cast<uint64_t>(max_finish(state));
    // Quota's slack is in its first threshold already.
    const bool has_slack = params.planner != PlannerKind::kQuota;
    score.reached = has_slack && score.objective < static_cast<uint64_t>(p.accepted)
                        ? static_cast<uint64_t>(p.accepted)
                        : score.objective;
  }
  return score;
}

// Writes a score into column `column`; one thread.
__device__ inline void post_score(const CandidateScore& score, int32_t column, uint32_t* scores) {
  const auto put = [&](int32_t word, uint32_t value) { scores[word * 32 + column] = value; };
  put(kReachedHigh, static_cast<uint32_t>(score.reached >> 32));
  put(kReachedLow, static_cast<uint32_t>(score.reached));
  put(kCopies, static_cast<uint32_t>(score.copies));
  put(kObjectiveHigh, static_cast<uint32_t>(score.objective >> 32));
  put(kObjectiveLow, static_cast<uint32_t>(score.objective));
  put(kMovedHigh, static_cast<uint32_t>(static_cast<uint64_t>(score.moved_blocks) >> 32));
  put(kMovedLow, static_cast<uint32_t>(score.moved_blocks));
  put(kMember, static_cast<uint32_t>(score.member + 1));
}

__device__ inline uint64_t posted_score(const uint32_t* scores, int32_t column, ScoreWord high) {
  return static_cast<uint64_t>(scores[high * 32 + column]) << 32 | scores[(high + 1) * 32 + column];
}

// The column of the best score. Whole warp.
template <class Lanes>
__device__ int32_t best_column(const DevicePlannerParams& params, int32_t num_searches,
                               const uint32_t* scores) {
  const int32_t lane = Lanes::first();
  constexpr bool kHasWideWords = sizeof(typename Lanes::Key) == 8 || Lanes::kHasCosts;
  bool leads = lane < num_searches || lane == kBestScore;
#pragma unroll
  for (int32_t word = 0; word < kNumScoreWords; ++word) {
    const bool is_high = word == kReachedHigh || word == kObjectiveHigh || word == kMovedHigh;
    if (is_high && !kHasWideWords) continue;
    const uint32_t value = leads ? scores[word * 32 + lane] : 0xffffffffu;
    const uint32_t least = __reduce_min_sync(kWholeWarp, value);  // by all lanes, leading or not
    leads = leads && value == least;
  }
  return __ffs(static_cast<int32_t>(__ballot_sync(kWholeWarp, leads))) - 1;
}

// Copies the search's replicas to the drafts of this domain. Whole warp.
template <class Lanes>
__device__ void keep_drafts(const DevicePlannerParams& params, const DeviceDomain& domain,
                            const SearchView<Lanes>& state, PlannerMemory& memory) {
  DeviceDraft* const drafts = memory.drafts() + memory.facts.num_drafts;
  int32_t kept = 0;
  MF_UNROLL(1)
  for (int32_t begin = 0; begin < state.num_replicas(); begin += Lanes::kCount) {
    const int32_t i = begin + Lanes::first();
    const SearchReplica replica = i < state.num_replicas() ? state.replica(i) : SearchReplica{};
    const uint32_t used = __ballot_sync(kWholeWarp, replica.blocks > 0);
    if (replica.blocks > 0) {
      const int32_t at = kept + __popc(used & ((1u << Lanes::first()) - 1));
      drafts[at] = {memory.ids[replica.expert], memory.ranks[domain.first_rank + replica.rank],
                    replica.blocks};
    }
    kept += __popc(used);
  }
  if (Lanes::is_writer()) memory.facts.domain_drafts = kept;
  __syncwarp();
}

// What the members of a round know.
struct RoundFacts {
  int32_t first_member = 0;
  int32_t end_member = 0;
  int64_t best = 0;  // objective of the first wave
  int64_t most = 0;  // largest finish of fixed placement
};

// Runs the search of this warp; false if it has none.
template <class Lanes>
__device__ bool run_search(const DevicePlannerParams& params, int32_t member,
                           const RoundFacts& round, SearchView<Lanes>& state) {
  if constexpr (sizeof(typename Lanes::Key) == 8) {
    if (params.planner == PlannerKind::kQuota) {
      search_quota(params.slack_ppm, round.most, state);
      return true;
    }
  }
  const int64_t tau = state.problem().tau;
  const bool is_second = member >= kFirstSecond && params.objective == Objective::kForward;
  const MemberSearch search =
      is_second ? second_search(member, tau, round.best) : member_search(member, tau);
  if (search.target < 0) return false;
  run_member(search, state);
  return true;
}

// One member a warp. The best of them, if it beats the best so far, keeps its replicas, and then
// those with fewer moved blocks at the same loads, if that is better still; what later rounds have
// to beat is the score before that. Whole block.
template <class Lanes>
__device__ void run_round(const DevicePlannerParams& params, const DeviceDomain& domain,
                          const RoundFacts& round, SearchView<Lanes>& state,
                          PlannerMemory& memory) {
  const auto warp = static_cast<int32_t>(threadIdx.x / 32);
  const int32_t member = round.first_member + warp;
  const bool may_run = warp < params.num_searches && member < round.end_member;
  const bool has_run = may_run && run_search(params, member, round, state);
  CandidateScore first;
  bool goes_on = has_run;
  MF_UNROLL(1)
  for (int32_t pass = 0; pass < 2; ++pass) {
    CandidateScore score;
    score.reached = ~uint64_t{0};
    if (goes_on) score = score_search(params, state, member);
    if (pass == 0) {
      first = score;
      if (Lanes::is_writer() && warp < params.num_searches) post_score(score, warp, memory.scores);
      __syncthreads();
      goes_on = has_run && best_column<Lanes>(params, params.num_searches, memory.scores) == warp;
      __syncthreads();
      if (goes_on && Lanes::is_writer()) post_score(first, kBestScore, memory.scores);
    } else {
      goes_on = goes_on && score < first;
    }
    if (!goes_on) continue;
    keep_drafts(params, domain, state, memory);
    if (Lanes::is_writer()) {
      memory.facts.domain_objective = score.objective;
      memory.facts.domain_search_id = member - members_of(params).begin;
    }
    if (pass == 0) goes_on = params.planner != PlannerKind::kQuota && shorten(state) > 0;
  }
  __syncthreads();
}

// All members of one domain, in as many rounds as shared memory asks for. Whole block.
template <class Lanes>
__device__ void run_members(const DevicePlannerParams& params, const DeviceDomain& domain,
                            int64_t most, SearchView<Lanes>& state, PlannerMemory& memory) {
  MemberRange members = members_of(params);
  const bool has_second = members.begin == 0 && members.end == kFirstSecond;
  RoundFacts round = {members.begin, members.end, 0, most};
  for (;;) {
    run_round(params, domain, round, state, memory);
    round.first_member += params.num_searches;
    if (round.first_member < round.end_member) continue;
    const uint64_t reached = posted_score(memory.scores, kBestScore, kReachedHigh);
    if (!has_second || round.end_member == kNumMembers ||
        reached <= static_cast<uint64_t>(state.problem().accepted)) {
      return;
    }
    round.first_member = kFirstSecond;
    round.end_member = kNumMembers;
    round.best = static_cast<int64_t>(posted_score(memory.scores, kBestScore, kObjectiveHigh));
  }
}

}  // namespace megaflux
