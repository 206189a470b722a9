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

// 16 bytes that a device loads at once, as SearchExpert.
struct alignas(16) SearchReplica {
  int32_t expert = 0;  // local indices
  int32_t rank = 0;
  int32_t blocks = 0;  // 0 = dropped
  int32_t next = -1;   // next replica of the expert, -1 = last
};

// What a search knows of one expert.
struct alignas(16) SearchExpert {
  int32_t left = 0;      // blocks the owner still computes
  int32_t head = -1;     // first replica, -1 = none
  uint64_t holders = 0;  // of ranks 0 ... 63 the owner and those with a replica
};

// Where a search keeps what it changes.
struct SearchMemory {
  int32_t* gap = nullptr;           // [R] load with lambda minus capacity at the target
  int32_t* capacity = nullptr;      // [R] at the target
  int32_t* slots_left = nullptr;    // [R]
  int32_t* scratch = nullptr;       // [R]
  SearchExpert* experts = nullptr;  // [num_experts]
  uint64_t* more_holders =
      nullptr;  // [num_experts, rank_words - 1] holders of the ranks from 64 on
  // [2 R s] in the order of opening; dropped ones stay, and behind the R s that there can be is
  // room for as many notes, or for who scores the search.
  SearchReplica* replicas = nullptr;
};

template <class Lanes>
class SearchView {
 public:
  SearchView() = default;
  MF_HOST_DEVICE SearchView(Lanes lanes, const ProblemView& problem, const SearchMemory& memory)
      : lanes_(lanes),
        problem_(problem),
        memory_(memory),
        gap_(memory.gap),
        slots_left_(memory.slots_left),
        scratch_(memory.scratch) {}

  MF_HOST_DEVICE const Lanes& lanes() const { return lanes_; }
  MF_HOST_DEVICE const ProblemView& problem() const { return problem_; }
  // > 0 excess, < 0 deficit against the capacity at the target.
  MF_HOST_DEVICE int32_t gap(int32_t rank) const { return gap_.at(rank); }
  MF_HOST_DEVICE int32_t load(int32_t rank) const {
    return gap_.at(rank) + (Lanes::kIsUniform ? flat_capacity_ : memory_.capacity[rank]);
  }
  // Of the lane's own ranks.
  MF_HOST_DEVICE int32_t own_gap(int32_t i) const { return gap_.own(i); }
  MF_HOST_DEVICE int32_t own_slots(int32_t i) const { return slots_left_.own(i); }
  // Of any rank, in the middle of moves; the same call on every lane.
  MF_HOST_DEVICE int32_t told_gap(int32_t rank) const { return gap_.told(rank); }
  MF_HOST_DEVICE int64_t own_finish(int32_t i) const {
    if constexpr (Lanes::kIsUniform) return gap_.own(i) + flat_capacity_;
    return finish(lanes_.rank_of(i));
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
  MF_HOST_DEVICE int32_t own_left(int32_t expert) const { return memory_.experts[expert].left; }
  MF_HOST_DEVICE int32_t slots_left(int32_t rank) const { return slots_left_.at(rank); }
  MF_HOST_DEVICE int32_t num_replicas() const { return num_replicas_; }
  MF_HOST_DEVICE const SearchReplica& replica(int32_t i) const { return memory_.replicas[i]; }
  MF_HOST_DEVICE const SearchExpert& expert(int32_t e) const { return memory_.experts[e]; }
  MF_HOST_DEVICE int32_t first_replica(int32_t expert) const {
    return memory_.experts[expert].head;
  }
  // A number a replica, for whoever refines: behind the replicas there is room for as many again.
  MF_HOST_DEVICE int32_t note(int32_t i) const { return memory_.replicas[num_replicas_ + i].next; }
  MF_HOST_DEVICE void set_note(int32_t i, int32_t number) {
    memory_.replicas[num_replicas_ + i].next = number;
  }
  // A number a rank, for whoever searches.
  MF_HOST_DEVICE typename Lanes::RankValues& scratch() { return scratch_; }
  MF_HOST_DEVICE const typename Lanes::RankValues& scratch() const { return scratch_; }

  // True for the owner and for ranks with a replica.
  MF_HOST_DEVICE bool holds(int32_t expert, int32_t rank) const {
    return (holder_word(expert, rank) >> (rank & 63) & 1) != 0;
  }
  // The same for an expert that was looked up already.
  MF_HOST_DEVICE bool holds(int32_t e, const SearchExpert& expert, int32_t rank) const {
    if constexpr (Lanes::kMaxRanks > 64) return holds(e, rank);
    return (expert.holders >> rank & 1) != 0;
  }
  // The same of the lane's i-th rank.
  MF_HOST_DEVICE bool own_holds(int32_t e, const SearchExpert& expert, int32_t i) const {
    if constexpr (Lanes::kMaxRanks <= 64) return Lanes::has_own(expert.holders, i);
    return holds(e, lanes_.rank_of(i));
  }
  // Position of the replica of `expert` on `rank`, -1 = none.
  MF_HOST_DEVICE int32_t find(int32_t expert, int32_t rank) const {
    int32_t i = memory_.experts[expert].head;
    MF_UNROLL(1)
    while (i >= 0 && memory_.replicas[i].rank != rank) i = memory_.replicas[i].next;
    return i;
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
  MF_HOST_DEVICE int32_t open(int32_t expert, int32_t rank, int32_t blocks) {
    return open(expert, problem_.owner[expert], rank, blocks);
  }
  MF_HOST_DEVICE int32_t open(int32_t expert, int32_t owner, int32_t rank, int32_t blocks);
  // The same for an expert that one lane, the finder, has looked up: `found` is what it saw. gap(),
  // load() and slots_left() know of it after publish().
  MF_HOST_DEVICE void open_found(bool is_finder, int32_t expert, SearchExpert found, int32_t owner,
                                 int32_t rank, int32_t blocks);
  MF_HOST_DEVICE void publish() {
    gap_.publish();
    slots_left_.publish();
    lanes_.sync();
  }
  // Moves `blocks` of the owner's share to replica `i`; negative = back to the owner.
  MF_HOST_DEVICE void add(int32_t i, int32_t blocks);
  // Moves `blocks` of one expert from its replica `from` on rank `giver` to its replica `to` on
  // rank `taker`; -1 = the owner's share.
  MF_HOST_DEVICE void shift(int32_t from, int32_t to, int32_t giver, int32_t taker, int32_t blocks);
  // Replica `i` moves from its rank to that of replica `j`, which does not hold its expert, and as
  // many blocks of j back to their owner, who is i's rank: all loads stay.
  MF_HOST_DEVICE void pass_on(int32_t i, int32_t j);
  // Gives all blocks of replica `i` back to its owner and frees the slot.
  MF_HOST_DEVICE void drop(int32_t i);

 private:
  MF_HOST_DEVICE uint64_t& holder_word(int32_t expert, int32_t rank) const {
    if (Lanes::kMaxRanks <= 64 || rank < 64) return memory_.experts[expert].holders;
    return memory_.more_holders[expert * (problem_.rank_words - 1) + rank / 64 - 1];
  }
  static MF_HOST_DEVICE uint64_t bit(int32_t rank) {
    if constexpr (Lanes::kMaxRanks <= 32) return uint32_t{1} << rank;
    return uint64_t{1} << (rank & 63);
  }
  MF_HOST_DEVICE void reset_expert(int32_t expert);
  MF_HOST_DEVICE void write_replica(int32_t expert, SearchExpert state, int32_t rank,
                                    int32_t blocks);

  Lanes lanes_;
  ProblemView problem_;
  SearchMemory memory_;
  typename Lanes::RankValues gap_, slots_left_, scratch_;
  int32_t flat_capacity_ = 0;  // of every rank, if the lanes are uniform
  int32_t num_replicas_ = 0;
};

// All blocks of `expert` on its owner.
template <class Lanes>
MF_HOST_DEVICE void SearchView<Lanes>::reset_expert(int32_t expert) {
  const int32_t owner = problem_.owner[expert];
  memory_.experts[expert] = {problem_.blocks[expert], -1,
                             Lanes::kMaxRanks <= 64 || owner < 64 ? bit(owner) : 0};
  if constexpr (Lanes::kMaxRanks > 64) {
    MF_UNROLL(1)
    for (int32_t w = 0; w < problem_.rank_words - 1; ++w) {
      memory_.more_holders[expert * (problem_.rank_words - 1) + w] = 0;
    }
    holder_word(expert, owner) = bit(owner);
  }
}

template <class Lanes>
MF_HOST_DEVICE void SearchView<Lanes>::reset() {
  num_replicas_ = 0;
  MF_UNROLL(4)
  for (int32_t e = lanes_.first(); e < problem_.num_experts; e += Lanes::kCount) {
    reset_expert(e);
  }
  lanes_.sync();
}

template <class Lanes>
MF_HOST_DEVICE void SearchView<Lanes>::start(int64_t target) {
  lanes_.sync();
  MF_UNROLL(1)
  for (int32_t i = lanes_.first(); i < num_replicas_; i += Lanes::kCount) {
    // The end of an expert's list, so that one lane resets it.
    const SearchReplica& replica = memory_.replicas[i];
    if (replica.blocks > 0 && replica.next < 0) reset_expert(replica.expert);
  }
  num_replicas_ = 0;
  flat_capacity_ = capacity(0, target);
  const int32_t num_own = lanes_.num_own(problem_.num_ranks);
  for (int32_t i = 0; i < num_own; ++i) {
    const int32_t r = lanes_.rank_of(i);
    const bool exists = r < problem_.num_ranks;
    const int32_t capacity_at = exists ? capacity(r, target) : 0;
    if (exists && !Lanes::kIsUniform) memory_.capacity[r] = capacity_at;
    gap_.set_own(i, exists ? problem_.fixed_load[r] - capacity_at : 0);
    slots_left_.set_own(i, exists ? problem_.replica_slots : 0);
    scratch_.set_own(i, 0);
  }
  lanes_.sync();
}

// One lane opens the next replica of `expert`, whose state is `state`.
template <class Lanes>
MF_HOST_DEVICE void SearchView<Lanes>::write_replica(int32_t expert, SearchExpert state,
                                                     int32_t rank, int32_t blocks) {
  memory_.replicas[num_replicas_] = {expert, rank, blocks, state.head};
  state.head = num_replicas_;
  state.left -= blocks;
  if (Lanes::kMaxRanks <= 64 || rank < 64) state.holders |= bit(rank);
  memory_.experts[expert] = state;
  if (Lanes::kMaxRanks > 64 && rank >= 64) holder_word(expert, rank) |= bit(rank);
}

template <class Lanes>
MF_HOST_DEVICE int32_t SearchView<Lanes>::open(int32_t expert, int32_t owner, int32_t rank,
                                               int32_t blocks) {
  lanes_.sync();
  if (lanes_.is_writer()) write_replica(expert, memory_.experts[expert], rank, blocks);
  ++num_replicas_;
  slots_left_.add(rank, -1);
  gap_.add(rank, blocks);
  gap_.add(owner, problem_.lambda_blocks - blocks);
  lanes_.sync();
  return num_replicas_ - 1;
}

template <class Lanes>
MF_HOST_DEVICE void SearchView<Lanes>::open_found(bool is_finder, int32_t expert,
                                                  SearchExpert found, int32_t owner, int32_t rank,
                                                  int32_t blocks) {
  lanes_.sync();
  if (is_finder) write_replica(expert, found, rank, blocks);
  ++num_replicas_;
  slots_left_.add_own(rank, -1);
  gap_.add_own(rank, blocks);
  gap_.add_own(owner, problem_.lambda_blocks - blocks);
  lanes_.sync();
}

template <class Lanes>
MF_HOST_DEVICE void SearchView<Lanes>::add(int32_t i, int32_t blocks) {
  lanes_.sync();
  const SearchReplica replica = memory_.replicas[i];
  lanes_.sync();
  if (lanes_.is_writer()) {
    memory_.replicas[i].blocks += blocks;
    memory_.experts[replica.expert].left -= blocks;
  }
  gap_.add(replica.rank, blocks);
  gap_.add(problem_.owner[replica.expert], -blocks);
  lanes_.sync();
}

template <class Lanes>
MF_HOST_DEVICE void SearchView<Lanes>::shift(int32_t from, int32_t to, int32_t giver, int32_t taker,
                                             int32_t blocks) {
  lanes_.sync();
  if (lanes_.is_writer()) {
    SearchExpert& expert = memory_.experts[memory_.replicas[std::max(from, to)].expert];
    if (from >= 0) memory_.replicas[from].blocks -= blocks;
    if (to >= 0) memory_.replicas[to].blocks += blocks;
    if (from < 0) expert.left -= blocks;
    if (to < 0) expert.left += blocks;
  }
  gap_.add(giver, -blocks);
  gap_.add(taker, blocks);
  lanes_.sync();
}

template <class Lanes>
MF_HOST_DEVICE void SearchView<Lanes>::pass_on(int32_t i, int32_t j) {
  const SearchReplica in = memory_.replicas[i];
  const SearchReplica out = memory_.replicas[j];
  lanes_.sync();
  if (lanes_.is_writer()) {
    memory_.replicas[i].rank = out.rank;
    memory_.replicas[j].blocks = out.blocks - in.blocks;
    memory_.experts[out.expert].left += in.blocks;
    holder_word(in.expert, in.rank) &= ~bit(in.rank);
    holder_word(in.expert, out.rank) |= bit(out.rank);
  }
  slots_left_.add(in.rank, 1);
  slots_left_.add(out.rank, -1);
  lanes_.sync();
}

template <class Lanes>
MF_HOST_DEVICE void SearchView<Lanes>::drop(int32_t i) {
  const SearchReplica replica = memory_.replicas[i];
  lanes_.sync();
  if (lanes_.is_writer()) {
    memory_.replicas[i].blocks = 0;
    SearchExpert& state = memory_.experts[replica.expert];
    state.left += replica.blocks;
    int32_t* link = &state.head;
    MF_UNROLL(1)
    while (*link != i) link = &memory_.replicas[*link].next;
    *link = replica.next;
    holder_word(replica.expert, replica.rank) &= ~bit(replica.rank);
  }
  const int32_t owner = problem_.owner[replica.expert];
  slots_left_.add(replica.rank, 1);
  gap_.add(replica.rank, -replica.blocks);
  // Lambda first: blocks and lambda together may pass 31 bits.
  gap_.add(owner, -problem_.lambda_blocks);
  gap_.add(owner, replica.blocks);
  lanes_.sync();
}

}  // namespace megaflux
