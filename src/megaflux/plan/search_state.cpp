#include "megaflux/plan/search_state.h"

namespace megaflux {

void SearchState::attach(const DomainProblem& problem) {
  problem_ = &problem;
  words_ = problem.rank_words;
  replicas_.clear();
  gap_.resize(problem.num_ranks);
  capacity_.resize(problem.num_ranks);
  slots_left_.resize(problem.num_ranks);
  rank_marks_.resize(problem.num_ranks);
  rank_keys_.resize(problem.num_ranks);
  rank_order_.reserve(problem.num_ranks);
  // Dropped entries stay until the next start; refining opens at most as many again.
  replicas_.reserve(static_cast<size_t>(problem.num_ranks) * problem.replica_slots * 2);
  own_left_.reserve(problem.most_experts);
  head_.reserve(problem.most_experts);
  holders_.reserve(problem.most_experts * words_);
  own_left_.assign(problem.blocks.begin(), problem.blocks.end());
  head_.assign(problem.num_experts, -1);
  holders_.assign(problem.num_experts * words_, 0);
  for (int32_t e = 0; e < problem.num_experts; ++e) {
    holders_[e * words_ + problem.owner[e] / 64] = uint64_t{1} << (problem.owner[e] % 64);
  }
}

void SearchState::start(int64_t target) {
  const DomainProblem& p = *problem_;
  for (const SearchReplica& replica : replicas_) {
    const int32_t e = replica.expert;
    own_left_[e] = p.blocks[e];
    head_[e] = -1;
    holders_[e * words_ + replica.rank / 64] &= ~(uint64_t{1} << (replica.rank % 64));
  }
  replicas_.clear();
  for (int32_t r = 0; r < p.num_ranks; ++r) {
    capacity_[r] = p.capacity(r, target);
    gap_[r] = p.fixed_load[r] - capacity_[r];
    slots_left_[r] = p.replica_slots;
  }
}

int32_t SearchState::open(int32_t expert, int32_t rank, int32_t blocks) {
  const int32_t i = static_cast<int32_t>(replicas_.size());
  replicas_.push_back({expert, rank, blocks, head_[expert]});
  head_[expert] = i;
  holders_[expert * words_ + rank / 64] |= uint64_t{1} << (rank % 64);
  --slots_left_[rank];
  own_left_[expert] -= blocks;
  gap_[rank] += blocks;
  gap_[problem_->owner[expert]] += problem_->lambda_blocks - blocks;
  return i;
}

void SearchState::add(int32_t i, int32_t blocks) {
  SearchReplica& replica = replicas_[i];
  replica.blocks += blocks;
  own_left_[replica.expert] -= blocks;
  gap_[replica.rank] += blocks;
  gap_[problem_->owner[replica.expert]] -= blocks;
}

void SearchState::drop(int32_t i) {
  const SearchReplica& replica = replicas_[i];
  const int32_t e = replica.expert;
  // Lambda first: blocks and lambda together may pass 31 bits.
  gap_[problem_->owner[e]] -= problem_->lambda_blocks;
  add(i, -replica.blocks);
  int32_t* link = &head_[e];
  while (*link != i) link = &replicas_[*link].next;
  *link = replica.next;
  holders_[e * words_ + replica.rank / 64] &= ~(uint64_t{1} << (replica.rank % 64));
  ++slots_left_[replica.rank];
}

}  // namespace megaflux
