// SearchView: the plan a search is building, and the moves it is built from, in memory that
// somebody else holds: a SearchState on the host, a block's shared memory on a device. Every lane
// has its own copy of the view and takes the same steps; one of them writes.
//
// Example: the problem of problem.h at target 8: gap = {12 - 8, 3 - 8} = {4, -5}. open(1, 1, 4)
// gives 4 of the 5 blocks of local expert 1 to a replica on local rank 1: gap = {0, -1}, own_left =
// {7, 1, 3}, slots_left = {s, s - 1}, replicas = {{1, 1, 4}}. With lambda, opening a replica also
// adds lambda blocks to its owner's gap.
#pragma once

#include <algorithm>
#include <cstdint>

#include "megaflux/base/math.h"
#include "megaflux/plan/search/lanes.h"
#include "megaflux/plan/search/problem_view.h"

namespace megaflux {

struct SearchReplica {
  int32_t expert = 0;  // local indices
  int32_t rank = 0;
  int32_t blocks = 0;  // 0 = dropped
  int32_t next = -1;   // next replica of the expert, -1 = last
};

// Where a search keeps what it changes.
struct SearchMemory {
  int32_t* gap = nullptr;         // [R] load with lambda minus capacity at the target
  int32_t* capacity = nullptr;    // [R] at the target
  int32_t* slots_left = nullptr;  // [R]
  int32_t* own_left = nullptr;    // [num_experts] blocks the owner still computes
  int32_t* head = nullptr;        // [num_experts] first replica, -1 = none
  uint64_t* holders = nullptr;  // [num_experts, rank_words] the owner and the ranks with a replica
  // [2 R s] in the order of opening; dropped ones stay, and refining opens at most as many again.
  SearchReplica* replicas = nullptr;
  uint8_t* rank_marks = nullptr;  // [R] scratch
  int32_t* rank_keys = nullptr;   // [R] scratch
};

template <class Lanes>
class SearchView {
 public:
  SearchView() = default;
  MF_HOST_DEVICE SearchView(Lanes lanes, const ProblemView& problem, const SearchMemory& memory)
      : lanes_(lanes), problem_(problem), memory_(memory) {}

  MF_HOST_DEVICE const Lanes& lanes() const { return lanes_; }
  MF_HOST_DEVICE const ProblemView& problem() const { return problem_; }
  // > 0 excess, < 0 deficit against the capacity at the target.
  MF_HOST_DEVICE int32_t gap(int32_t rank) const { return memory_.gap[rank]; }
  MF_HOST_DEVICE int32_t load(int32_t rank) const {
    return memory_.gap[rank] + memory_.capacity[rank];
  }
  // When `rank` finishes with `more` blocks on top of its load.
  MF_HOST_DEVICE int64_t finish(int32_t rank, int32_t more = 0) const {
    if constexpr (Lanes::kIsUniform) return load(rank) + more;
    return problem_.finish(rank, load(rank) + more);
  }
  MF_HOST_DEVICE int32_t capacity(int32_t rank, int64_t finish_time) const {
    if constexpr (Lanes::kIsUniform) {
      return static_cast<int32_t>(std::min<int64_t>(finish_time, problem_.total_blocks));
    }
    return problem_.capacity(rank, finish_time);
  }
  MF_HOST_DEVICE int32_t own_left(int32_t expert) const { return memory_.own_left[expert]; }
  MF_HOST_DEVICE int32_t slots_left(int32_t rank) const { return memory_.slots_left[rank]; }
  MF_HOST_DEVICE int32_t num_replicas() const { return num_replicas_; }
  MF_HOST_DEVICE const SearchReplica& replica(int32_t i) const { return memory_.replicas[i]; }
  MF_HOST_DEVICE int32_t first_replica(int32_t expert) const { return memory_.head[expert]; }
  MF_HOST_DEVICE uint8_t* rank_marks() const { return memory_.rank_marks; }
  MF_HOST_DEVICE int32_t* rank_keys() const { return memory_.rank_keys; }

  // True for the owner and for ranks with a replica.
  MF_HOST_DEVICE bool holds(int32_t expert, int32_t rank) const {
    return (memory_.holders[expert * problem_.rank_words + rank / 64] >> (rank % 64) & 1) != 0;
  }
  // Position of the replica of `expert` on `rank`, -1 = none.
  MF_HOST_DEVICE int32_t find(int32_t expert, int32_t rank) const {
    int32_t i = memory_.head[expert];
    while (i >= 0 && memory_.replicas[i].rank != rank) i = memory_.replicas[i].next;
    return i;
  }
  // A new replica of `expert` may be opened on `rank`, whatever its size.
  MF_HOST_DEVICE bool can_open(int32_t expert, int32_t rank) const {
    return memory_.slots_left[rank] > 0 && !holds(expert, rank);
  }
  // The least blocks with which a new replica of `expert` pays: its least size, and more than
  // lambda.
  MF_HOST_DEVICE int32_t least_to_open(int32_t expert, int32_t rank) const {
    const int32_t least = problem_.least_blocks(expert, rank);
    return least > problem_.lambda_blocks ? least : problem_.lambda_blocks + 1;
  }

  // The memory of a problem not searched before: fixed placement, without gaps.
  MF_HOST_DEVICE void reset();
  // Back to fixed placement, gaps against each rank's capacity at `target`: O(R + replicas of the
  // last search).
  MF_HOST_DEVICE void start(int64_t target);
  // Moves `blocks` of the owner's share to a new replica on `rank`; returns its position.
  MF_HOST_DEVICE int32_t open(int32_t expert, int32_t rank, int32_t blocks);
  // Moves `blocks` of the owner's share to replica `i`; negative = back to the owner.
  MF_HOST_DEVICE void add(int32_t i, int32_t blocks);
  // Gives all blocks of replica `i` back to its owner and frees the slot.
  MF_HOST_DEVICE void drop(int32_t i);

 private:
  MF_HOST_DEVICE uint64_t& holder_word(int32_t expert, int32_t rank) const {
    return memory_.holders[expert * problem_.rank_words + rank / 64];
  }
  static MF_HOST_DEVICE uint64_t bit(int32_t rank) { return uint64_t{1} << (rank % 64); }

  Lanes lanes_;
  ProblemView problem_;
  SearchMemory memory_;
  int32_t num_replicas_ = 0;
};

template <class Lanes>
MF_HOST_DEVICE void SearchView<Lanes>::reset() {
  num_replicas_ = 0;
  for (int32_t e = lanes_.first(); e < problem_.num_experts; e += Lanes::kCount) {
    memory_.own_left[e] = problem_.blocks[e];
    memory_.head[e] = -1;
    for (int32_t w = 0; w < problem_.rank_words; ++w) {
      memory_.holders[e * problem_.rank_words + w] = 0;
    }
    holder_word(e, problem_.owner[e]) = bit(problem_.owner[e]);
  }
  lanes_.sync();
}

template <class Lanes>
MF_HOST_DEVICE void SearchView<Lanes>::start(int64_t target) {
  lanes_.sync();
  for (int32_t i = lanes_.first(); i < num_replicas_; i += Lanes::kCount) {
    const int32_t e = memory_.replicas[i].expert;
    memory_.own_left[e] = problem_.blocks[e];
    memory_.head[e] = -1;
    for (int32_t w = 0; w < problem_.rank_words; ++w) {
      memory_.holders[e * problem_.rank_words + w] =
          w == problem_.owner[e] / 64 ? bit(problem_.owner[e]) : 0;
    }
  }
  num_replicas_ = 0;
  for (int32_t r = lanes_.first(); r < problem_.num_ranks; r += Lanes::kCount) {
    memory_.capacity[r] = capacity(r, target);
    memory_.gap[r] = problem_.fixed_load[r] - memory_.capacity[r];
    memory_.slots_left[r] = problem_.replica_slots;
  }
  lanes_.sync();
}

template <class Lanes>
MF_HOST_DEVICE int32_t SearchView<Lanes>::open(int32_t expert, int32_t rank, int32_t blocks) {
  lanes_.sync();
  const int32_t i = num_replicas_++;
  if (lanes_.is_writer()) {
    memory_.replicas[i] = {expert, rank, blocks, memory_.head[expert]};
    memory_.head[expert] = i;
    holder_word(expert, rank) |= bit(rank);
    --memory_.slots_left[rank];
    memory_.own_left[expert] -= blocks;
    memory_.gap[rank] += blocks;
    memory_.gap[problem_.owner[expert]] += problem_.lambda_blocks - blocks;
  }
  lanes_.sync();
  return i;
}

template <class Lanes>
MF_HOST_DEVICE void SearchView<Lanes>::add(int32_t i, int32_t blocks) {
  lanes_.sync();
  if (lanes_.is_writer()) {
    SearchReplica& replica = memory_.replicas[i];
    replica.blocks += blocks;
    memory_.own_left[replica.expert] -= blocks;
    memory_.gap[replica.rank] += blocks;
    memory_.gap[problem_.owner[replica.expert]] -= blocks;
  }
  lanes_.sync();
}

template <class Lanes>
MF_HOST_DEVICE void SearchView<Lanes>::drop(int32_t i) {
  const SearchReplica replica = memory_.replicas[i];
  lanes_.sync();
  if (lanes_.is_writer()) {
    // Lambda first: blocks and lambda together may pass 31 bits.
    memory_.gap[problem_.owner[replica.expert]] -= problem_.lambda_blocks;
    memory_.replicas[i].blocks = 0;
    memory_.own_left[replica.expert] += replica.blocks;
    memory_.gap[replica.rank] -= replica.blocks;
    memory_.gap[problem_.owner[replica.expert]] += replica.blocks;
    int32_t* link = &memory_.head[replica.expert];
    while (*link != i) link = &memory_.replicas[*link].next;
    *link = replica.next;
    holder_word(replica.expert, replica.rank) &= ~bit(replica.rank);
    ++memory_.slots_left[replica.rank];
  }
  lanes_.sync();
}

}  // namespace megaflux
