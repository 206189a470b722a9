// The searches of one domain on one block: a warp a search, the best plan of all of them into the
// drafts. The same members, scores and order of preference as on the host (portfolio_planner.cpp,
// candidate.h).
#pragma once

#include <cstdint>
#include <type_traits>

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
  return first_wave(params.planner == PlannerKind::kPaper,
                    params.objective == Objective::kBackward);
}

// Of predicted times: narrow lanes are chosen where 64 bits hold them.
template <class Lanes>
using CostNumber = std::conditional_t<sizeof(typename Lanes::Key) == 4, uint64_t, Wide>;

// Counts what the search's replicas ask of every rank. Whole warp.
template <class Lanes>
__device__ void count_asks(const SearchView<Lanes>& state, RankAsks* asks) {
  const ProblemView& p = state.problem();
  for (int32_t r = Lanes::first(); r < p.num_ranks; r += Lanes::kCount) asks[r] = {};
  __syncwarp();
  MF_UNROLL(1)
  for (int32_t i = Lanes::first(); i < state.num_replicas(); i += Lanes::kCount) {
    const SearchReplica replica = state.replica(i);
    if (replica.blocks == 0) continue;
    RankAsks& owner = asks[p.owner[replica.expert]];
    RankAsks& host = asks[replica.rank];
    atomicAdd(&owner.replicas, 1u << 16);
    atomicAdd(&host.replicas, 1u);
    atomicAdd(&host.moved_in, replica.blocks);
    if (p.is_resident(replica.expert, replica.rank)) {
      atomicAdd(&owner.kept, 1u << 16);
      atomicAdd(&host.kept, 1u);
    }
  }
  __syncwarp();
}

// What is asked of local rank `r` with `load` blocks (fill_rank_costs, one rank).
template <class Lanes>
__device__ RankCost rank_cost(const DevicePlannerParams& params, const ProblemView& p, int32_t r,
                              int32_t load, const RankAsks& asks) {
  const int64_t unit = Lanes::kIsUniform ? 1 : params.units;
  const uint32_t copies = asks.replicas - asks.kept;
  return {.finish_blocks = ceil_div(Lanes::kIsUniform ? load : p.finish(r, load), unit),
          .owned_blocks = ceil_div(int64_t{load - asks.moved_in}, unit),
          .load_blocks = ceil_div(int64_t{load}, unit),
          .copies_in = static_cast<int32_t>(copies & 0xffff),
          .copies_out = static_cast<int32_t>(copies >> 16),
          .replicas_out = static_cast<int32_t>(asks.replicas >> 16),
          .replicas_in = static_cast<int32_t>(asks.replicas & 0xffff)};
}

// Predicted time of the domain, planning included. `cost_of(r)` is what is asked of local rank r.
// Whole warp.
template <class Lanes, class CostOf>
__device__ uint64_t predict_ns(const DevicePlannerParams& params, const ProblemView& problem,
                               const CostOf& cost_of) {
  using Number = CostNumber<Lanes>;
  uint64_t slowest = 0;
  MF_UNROLL(1)
  for (int32_t r = Lanes::first(); r < problem.num_ranks; r += Lanes::kCount) {
    const uint64_t ns = rank_time_ns<Number>(params.cost, cost_of(r));
    slowest = ns > slowest ? ns : slowest;
  }
  // As signed numbers the order of the upper half would be wrong; it is far beyond any time.
  const auto high = __reduce_max_sync(kWholeWarp, static_cast<uint32_t>(slowest >> 32));
  const bool is_slowest = static_cast<uint32_t>(slowest >> 32) == high;
  const auto low = __reduce_max_sync(kWholeWarp, is_slowest ? static_cast<uint32_t>(slowest) : 0u);
  const Number layer_ns = Number(static_cast<uint64_t>(high) << 32 | low) + params.cost.plan_ns;
  if constexpr (sizeof(Number) == 8) return layer_ns;
  return ceil_saturated(layer_ns, 1);
}

template <class Lanes>
__device__ CandidateScore score_search(const DevicePlannerParams& params,
                                       const SearchView<Lanes>& state, int32_t member,
                                       PlannerMemory& memory) {
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
    if constexpr (Lanes::kHasCosts) {
      RankAsks* const asks = memory.asks<Lanes>(params);
      count_asks(state, asks);
      score.objective = score.reached = predict_ns<Lanes>(params, p, [&](int32_t r) {
        return rank_cost<Lanes>(params, p, r, state.load(r), asks[r]);
      });
    }
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

// Scores as words that are compared one after the other, each a row of 32 columns: reached, copies,
// objective, moved blocks, member from 1 on (0 is fixed placement). Blocks of narrow lanes are
// below 2^20, and share words; with costs, the objective of narrow lanes is what is reached.
template <class Lanes>
inline constexpr bool kIsWide = sizeof(typename Lanes::Key) == 8;
template <class Lanes>
inline constexpr int32_t kScoreWords = kIsWide<Lanes>     ? kMostScoreWords
                                       : Lanes::kHasCosts ? 4
                                                          : 3;

// Writes a score into column `column`; one thread.
template <class Lanes>
__device__ void post_score(const CandidateScore& score, int32_t column, uint32_t* scores) {
  const auto put = [&](int32_t word, uint64_t value) {
    scores[word * 32 + column] = static_cast<uint32_t>(value);
  };
  const auto copies = static_cast<uint64_t>(score.copies);
  const auto moved = static_cast<uint64_t>(score.moved_blocks);
  const auto member = static_cast<uint64_t>(score.member + 1);
  if constexpr (kIsWide<Lanes>) {
    const uint64_t words[kMostScoreWords] = {
        score.reached >> 32, score.reached, copies, score.objective >> 32,
        score.objective,     moved >> 32,   moved,  member};
#pragma unroll
    for (int32_t word = 0; word < kMostScoreWords; ++word) put(word, words[word]);
  } else if constexpr (Lanes::kHasCosts) {
    put(0, score.reached >> 32);
    put(1, score.reached);
    put(2, copies << 20 | moved);
    put(3, member);
  } else {
    put(0, score.reached);
    put(1, copies << 20 | score.objective);
    put(2, moved << 6 | member);
  }
}

// What the best score has reached, and its objective.
template <class Lanes>
__device__ uint64_t best_reached(const uint32_t* scores) {
  const uint64_t high = scores[kBestScore];
  if constexpr (kScoreWords<Lanes> == 3) return high;
  return high << 32 | scores[32 + kBestScore];
}
template <class Lanes>
__device__ uint64_t best_objective(const uint32_t* scores) {
  if constexpr (kScoreWords<Lanes> == 3) return scores[32 + kBestScore] & 0xfffff;
  if constexpr (!kIsWide<Lanes>) return best_reached<Lanes>(scores);
  return static_cast<uint64_t>(scores[3 * 32 + kBestScore]) << 32 | scores[4 * 32 + kBestScore];
}

// The column of the best score. Whole warp.
template <class Lanes>
__device__ int32_t best_column(int32_t num_searches, const uint32_t* scores) {
  const int32_t lane = Lanes::first();
  bool leads = lane < num_searches || lane == kBestScore;
#pragma unroll
  for (int32_t word = 0; word < kScoreWords<Lanes>; ++word) {
    const uint32_t value = leads ? scores[word * 32 + lane] : 0xffffffffu;
    const uint32_t least = __reduce_min_sync(kWholeWarp, value);  // by all lanes, leading or not
    leads = leads && value == least;
  }
  return __ffs(static_cast<int32_t>(__ballot_sync(kWholeWarp, leads))) - 1;
}

// Copies the search's replicas to the drafts of this domain, and what they reach. Whole warp.
template <class Lanes>
__device__ void keep_drafts(const DevicePlannerParams& params, const DeviceDomain& domain,
                            const CandidateScore& score, const SearchView<Lanes>& state,
                            PlannerMemory& memory) {
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
  if (Lanes::is_writer()) {
    memory.facts.domain_drafts = kept;
    memory.facts.domain_objective = score.objective;
    memory.facts.domain_search_id = score.member - members_of(params).begin;
  }
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
  const bool is_forward = params.objective == Objective::kForward;
  const MemberSearch search = member_search(member, tau, round.best, is_forward);
  if (search.target < 0) return false;
  run_member(search, state);
  return true;
}

// Keeps the best search with fewer moved blocks at the same loads: no more copies, no later finish,
// better in any case. Whole warp.
template <class Lanes>
__device__ void keep_shortened(const DevicePlannerParams& params, const DeviceDomain& domain,
                               CandidateScore score, SearchView<Lanes>& state,
                               PlannerMemory& memory) {
  if (shorten(state) > 0 && state.problem().lambda_blocks > 0) {
    score.objective = static_cast<uint64_t>(max_finish(state));
  }
  keep_drafts(params, domain, score, state, memory);
}

// One member a warp; the best of them is kept if it beats the best so far, and with costs once more
// if its score is better after replicas were rerouted. What later rounds have to beat is the score
// before. Whole block.
template <class Lanes>
__device__ void run_round(const DevicePlannerParams& params, const DeviceDomain& domain,
                          const RoundFacts& round, SearchView<Lanes>& state,
                          PlannerMemory& memory) {
  const auto warp = static_cast<int32_t>(threadIdx.x / 32);
  const int32_t member = round.first_member + warp;
  const bool may_run = warp < params.num_searches && member < round.end_member;
  const bool has_run = may_run && run_search(params, member, round, state);
  CandidateScore kept;
  // A loop, so that the code for both scores is fetched once.
  MF_UNROLL(1)
  for (bool is_rerouted = false;; is_rerouted = true) {
    CandidateScore score;
    score.reached = ~uint64_t{0};
    if (has_run) score = score_search(params, state, member, memory);
    if (!is_rerouted) {
      if (Lanes::is_writer() && warp < params.num_searches) {
        post_score<Lanes>(score, warp, memory.scores);
      }
      __syncthreads();
      const bool is_best =
          has_run && best_column<Lanes>(params.num_searches, memory.scores) == warp;
      __syncthreads();
      if (!is_best) break;
      if (Lanes::is_writer()) post_score<Lanes>(score, kBestScore, memory.scores);
    } else if (!(score < kept)) {
      break;
    }
    if constexpr (!Lanes::kHasCosts) {
      keep_shortened(params, domain, score, state, memory);
      break;
    }
    keep_drafts(params, domain, score, state, memory);
    kept = score;
    if (is_rerouted || params.planner == PlannerKind::kQuota || shorten(state) == 0) break;
  }
  __syncthreads();
}

// After the first wave: is there something left to gain? Any thread.
template <class Lanes>
__device__ bool needs_second_wave(const DevicePlannerParams& params, const ProblemView& problem,
                                  const uint32_t* scores) {
  if constexpr (Lanes::kHasCosts) {
    if (params.objective == Objective::kCost) {
      return another_wave_may_pay<CostNumber<Lanes>>(params.cost, best_objective<Lanes>(scores),
                                                     problem.tau);
    }
  }
  return best_reached<Lanes>(scores) > static_cast<uint64_t>(problem.accepted);
}

// All members of one domain, in as many rounds as shared memory asks for. Whole block.
template <class Lanes>
__device__ void run_members(const DevicePlannerParams& params, const DeviceDomain& domain,
                            int64_t most, SearchView<Lanes>& state, PlannerMemory& memory) {
  MemberRange members = members_of(params);
  const bool has_second = members.begin == 0 && members.end == kFirstPaper;
  RoundFacts round = {members.begin, members.end, 0, most};
  for (;;) {
    run_round(params, domain, round, state, memory);
    round.first_member += params.num_searches;
    if (round.first_member < round.end_member) continue;
    if (!has_second || round.end_member == kNumMembers ||
        !needs_second_wave<Lanes>(params, state.problem(), memory.scores)) {
      return;
    }
    round.first_member = kSecondWave.begin;
    round.end_member = kSecondWave.end;
    round.best = static_cast<int64_t>(best_objective<Lanes>(memory.scores));
  }
}

}  // namespace megaflux
