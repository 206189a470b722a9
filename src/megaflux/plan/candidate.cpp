#include "megaflux/plan/candidate.h"

#include "megaflux/plan/search/refine.h"

namespace megaflux {

void fill_rank_costs(const ProblemView& problem, std::span<const SearchReplica> replicas,
                     int32_t units_per_block, std::span<RankCost> ranks) {
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    ranks[r] = {.owned_blocks = problem.fixed_load[r], .load_blocks = problem.fixed_load[r]};
  }
  for (const SearchReplica& replica : replicas) {
    if (replica.blocks == 0) continue;
    const bool is_fresh = !problem.is_resident(replica.expert, replica.rank);
    RankCost& owner = ranks[problem.owner[replica.expert]];
    RankCost& host = ranks[replica.rank];
    owner.owned_blocks -= replica.blocks;
    owner.load_blocks -= replica.blocks;
    owner.copies_out += is_fresh;
    owner.replicas_out += 1;
    host.load_blocks += replica.blocks;
    host.copies_in += is_fresh;
    host.replicas_in += 1;
  }
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    RankCost& rank = ranks[r];
    const int64_t unit = units_per_block;
    rank.finish_blocks = ceil_div(problem.finish(r, static_cast<int32_t>(rank.load_blocks)), unit);
    rank.load_blocks = ceil_div(rank.load_blocks, unit);
    rank.owned_blocks = ceil_div(rank.owned_blocks, unit);
  }
}

CandidateScore CandidateScorer::score(const SearchState& state, int32_t member) {
  const ProblemView& problem = state.problem();
  CandidateScore score{.member = member};
  for (const SearchReplica& replica : state.replicas()) {
    if (replica.blocks == 0) continue;
    score.copies += !problem.is_resident(replica.expert, replica.rank);
    score.moved_blocks += replica.blocks;
  }
  if (config_.objective == Objective::kCost) {
    score.objective = score.reached = predict_ns(problem, state.replicas());
  } else {
    score.objective = static_cast<uint64_t>(max_finish(state));
    score.reached = std::max(score.objective, static_cast<uint64_t>(problem.accepted));
  }
  return score;
}

uint64_t CandidateScorer::predict_ns(const ProblemView& problem,
                                     std::span<const SearchReplica> replicas) {
  rank_costs_.resize(problem.num_ranks);
  fill_rank_costs(problem, replicas, units_per_block_, rank_costs_);
  return layer_ns(*config_.cost, rank_costs_);
}

}  // namespace megaflux
