// SearchState: the plan a search is building, and the moves it is built from.
//
// Example: the problem of problem.h at target 8: gap = {12 - 8, 3 - 8} = {4, -5}. open(1, 1, 4)
// gives 4 of the 5 blocks of local expert 1 to a replica on local rank 1: gap = {0, -1}, own_left =
// {7, 1, 3}, slots_left = {s, s - 1}, replicas = {{1, 1, 4}}. With lambda, opening a replica also
// adds lambda blocks to its owner's gap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/plan/problem.h"

namespace megaflux {

struct SearchReplica {
  int32_t expert = 0;  // local indices
  int32_t rank = 0;
  int32_t blocks = 0;  // 0 = dropped
  int32_t next = -1;   // next replica of the expert, -1 = last
};

class SearchState {
 public:
  // Back to fixed placement, gaps against each rank's capacity at `target`. Costs O(R + replicas of
  // the last search) while `problem` is the one of the last call and unchanged since `attach`.
  void attach(const DomainProblem& problem);
  void start(int64_t target);

  const DomainProblem& problem() const { return *problem_; }
  // Load with lambda minus capacity at the target: > 0 excess, < 0 deficit.
  int32_t gap(int32_t rank) const { return gap_[rank]; }
  int32_t load(int32_t rank) const { return gap_[rank] + capacity_[rank]; }
  int64_t finish(int32_t rank) const { return problem_->finish(rank, load(rank)); }
  std::span<const int32_t> gaps() const { return gap_; }
  int32_t own_left(int32_t expert) const { return own_left_[expert]; }
  int32_t slots_left(int32_t rank) const { return slots_left_[rank]; }
  std::span<const SearchReplica> replicas() const { return replicas_; }
  // Scratch of the searches, [R].
  std::vector<uint8_t>& rank_marks() { return rank_marks_; }
  std::vector<int32_t>& rank_order() { return rank_order_; }
  std::vector<int32_t>& rank_keys() { return rank_keys_; }
  int32_t first_replica(int32_t expert) const { return head_[expert]; }

  // True for the owner and for ranks with a replica.
  bool holds(int32_t expert, int32_t rank) const {
    return (holders_[expert * words_ + rank / 64] >> (rank % 64) & 1) != 0;
  }
  // Position in replicas() of the replica of `expert` on `rank`, -1 = none.
  int32_t find(int32_t expert, int32_t rank) const {
    int32_t i = head_[expert];
    while (i >= 0 && replicas_[i].rank != rank) i = replicas_[i].next;
    return i;
  }
  // A new replica of `expert` may be opened on `rank`, whatever its size.
  bool can_open(int32_t expert, int32_t rank) const {
    return slots_left_[rank] > 0 && !holds(expert, rank);
  }
  // The least blocks with which a new replica of `expert` pays: its least size, and more than
  // lambda.
  int32_t least_to_open(int32_t expert, int32_t rank) const {
    return std::max(problem_->least_blocks(expert, rank), problem_->lambda_blocks + 1);
  }

  // Moves `blocks` of the owner's share to a new replica on `rank`; returns its position.
  int32_t open(int32_t expert, int32_t rank, int32_t blocks);
  // Moves `blocks` of the owner's share to replica `i`; negative = back to the owner.
  void add(int32_t i, int32_t blocks);
  // Gives all blocks of replica `i` back to its owner and frees the slot.
  void drop(int32_t i);

 private:
  const DomainProblem* problem_ = nullptr;
  size_t words_ = 1;
  std::vector<int32_t> gap_;         // [R]
  std::vector<int32_t> capacity_;    // [R]
  std::vector<int32_t> slots_left_;  // [R]
  std::vector<int32_t> own_left_;    // [num_experts] blocks the owner still computes
  std::vector<int32_t> head_;        // [num_experts] first replica, -1 = none
  std::vector<uint64_t> holders_;    // [num_experts, words]
  std::vector<SearchReplica> replicas_;
  std::vector<uint8_t> rank_marks_;
  std::vector<int32_t> rank_order_;
  std::vector<int32_t> rank_keys_;
};

}  // namespace megaflux
