// What follows a search: fewer replicas at the same maximum, and a lower maximum with the same
// replicas.
#pragma once

#include <algorithm>
#include <cstdint>

#include "megaflux/plan/search/search_view.h"

namespace megaflux {

// The largest finish time, lambda included.
template <class Lanes>
MF_HOST_DEVICE int64_t max_finish(const SearchView<Lanes>& state) {
  typename Lanes::Key most = 0;
  MF_UNROLL(1)
  for (int32_t r = state.lanes().first(); r < state.problem().num_ranks; r += Lanes::kCount) {
    most = std::max(most, static_cast<typename Lanes::Key>(state.finish(r)));
  }
  return state.lanes().max(most);
}

namespace refine {

// Blocks that `rank` can take on before it finishes after `limit`.
template <class Lanes>
MF_HOST_DEVICE int32_t room(const SearchView<Lanes>& state, int32_t rank, int64_t limit) {
  return state.capacity(rank, limit) - state.load(rank);
}

// Blocks of replica `i` that its owner can take back; without the replica it no longer pays lambda.
template <class Lanes>
MF_HOST_DEVICE int32_t owner_takes(const SearchView<Lanes>& state, int32_t i, int64_t limit) {
  const ProblemView& p = state.problem();
  const SearchReplica& replica = state.replica(i);
  const int64_t own_room = int64_t{room(state, p.owner[replica.expert], limit)} + p.lambda_blocks;
  return static_cast<int32_t>(std::clamp<int64_t>(own_room, 0, replica.blocks));
}

// True if the other instances of replica i's expert can take all its blocks and none passes
// `limit`.
template <class Lanes>
MF_HOST_DEVICE bool can_hand_over(const SearchView<Lanes>& state, int32_t i, int64_t limit) {
  const SearchReplica& replica = state.replica(i);
  if (replica.blocks == 0) return false;
  int32_t rest = replica.blocks - owner_takes(state, i, limit);
  MF_UNROLL(1)
  for (int32_t j = state.first_replica(replica.expert); j >= 0 && rest > 0;
       j = state.replica(j).next) {
    if (j != i) rest -= std::max(0, std::min(rest, room(state, state.replica(j).rank, limit)));
  }
  return rest <= 0;
}

// Drops replica `i` after its blocks went to the other instances, the owner taking what it can.
template <class Lanes>
MF_HOST_DEVICE void hand_over(int32_t i, int64_t limit, SearchView<Lanes>& state) {
  const int32_t expert = state.replica(i).expert;
  int32_t rest = state.replica(i).blocks - owner_takes(state, i, limit);
  MF_UNROLL(1)
  for (int32_t j = state.first_replica(expert); j >= 0 && rest > 0; j = state.replica(j).next) {
    if (j == i) continue;
    const int32_t take = std::min(rest, room(state, state.replica(j).rank, limit));
    if (take <= 0) continue;
    rest -= take;
    state.add(i, -take);
    state.add(j, take);
  }
  state.drop(i);
}

}  // namespace refine

// Drops replicas whose blocks fit into the other instances of their expert without any rank passing
// `limit`; the latest replica first. Example: loads {9, 10, 7}, limit 10, expert 3 with 4 blocks on
// its owner 0, 1 on rank 1 and 2 on rank 2: rank 0 takes the single block of rank 1, whose slot is
// free again.
template <class Lanes>
MF_HOST_DEVICE void trim(int64_t limit, SearchView<Lanes>& state) {
  // Lanes look at so many replicas at once; the latest that can go does, and those before it are
  // looked at again.
  int32_t end = state.num_replicas();
  MF_UNROLL(1)
  while (end > 0) {
    const int32_t i = end - 1 - state.lanes().first();
    const bool can_go = i >= 0 && refine::can_hand_over(state, i, limit);
    const auto latest = static_cast<int32_t>(state.lanes().max(can_go ? i + 1 : 0));
    if (latest > 0) refine::hand_over(latest - 1, limit, state);
    end = latest > 0 ? latest - 1 : end - Lanes::kCount;
  }
}

namespace refine {

// One move that lowers the finish time of `busy`: from one of its instances to the instance of the
// same expert on the rank that finishes first.
struct Shift {
  int32_t from = -1;    // position of the replica that gives, -1 = the owner's share
  int32_t to = -1;      // position of the replica that takes, -1 = the owner's share
  int32_t target = -1;  // rank of `to`, -1 = no move
  int64_t finish = 0;
};

// The instance of an expert on a rank that replica `i` stands for: its own, if another instance of
// the expert is on `busy`; its owner's, if it is on `busy` itself.
template <class Lanes>
MF_HOST_DEVICE int32_t offered_rank(const SearchView<Lanes>& state, int32_t i, int32_t busy) {
  const SearchReplica replica = state.replica(i);
  if (replica.blocks == 0 || !state.holds(replica.expert, busy)) return -1;
  const int32_t owner = state.problem().owner[replica.expert];
  if (replica.rank == busy) return owner;
  return owner == busy && state.own_left(replica.expert) == 0 ? -1 : replica.rank;
}

template <class Lanes>
MF_HOST_DEVICE Shift choose_shift(const SearchView<Lanes>& state, int32_t busy) {
  const ProblemView& p = state.problem();
  typename Lanes::Key best = Lanes::kNoKey;
  int32_t position = INT32_MAX;
  MF_UNROLL(1)
  for (int32_t i = state.lanes().first(); i < state.num_replicas(); i += Lanes::kCount) {
    const int32_t target = offered_rank(state, i, busy);
    if (target < 0) continue;
    const auto instance = Lanes::min_key(state.finish(target), target);
    if (instance < best) position = i;
    best = std::min(best, instance);
  }
  const auto instance = state.lanes().min(best);
  if (instance == Lanes::kNoKey) return {};
  position = static_cast<int32_t>(state.lanes().min(best == instance ? position : INT32_MAX));
  const SearchReplica& replica = state.replica(position);
  const int32_t target = Lanes::id_of_min(instance);
  const auto finish = static_cast<int64_t>(Lanes::value_of(instance));
  if (replica.rank == busy) return {position, -1, target, finish};
  const bool owner_gives = p.owner[replica.expert] == busy;
  return {owner_gives ? -1 : state.find(replica.expert, busy), position, target, finish};
}

// The rank that finishes last, lowest id on ties.
template <class Lanes>
MF_HOST_DEVICE int32_t busiest(const SearchView<Lanes>& state) {
  typename Lanes::Key last = 0;
  const int32_t num_own = state.lanes().num_own(state.problem().num_ranks);
  for (int32_t i = 0; i < num_own; ++i) {
    const int32_t r = state.lanes().rank_of(i);
    if (r < state.problem().num_ranks) {
      last = std::max(last, Lanes::max_key(state.own_finish(i), r));
    }
  }
  return Lanes::id_of_max(state.lanes().max(last));
}

// Moves blocks of `shift` off `busy`, which finishes at `before`; false if that cannot help.
template <class Lanes>
MF_HOST_DEVICE bool apply(const Shift& shift, int32_t busy, int64_t before,
                          SearchView<Lanes>& state) {
  const ProblemView& p = state.problem();
  const int32_t expert = state.replica(std::max(shift.from, shift.to)).expert;
  const int32_t share = shift.from < 0 ? state.own_left(expert) : state.replica(shift.from).blocks;
  // Half the distance for equal speeds; the check below rejects a step that goes too far.
  const int32_t distance = room(state, shift.target, before);
  int32_t blocks = std::min(share, std::max(1, distance / 2 + distance % 2));
  if (state.finish(shift.target, blocks) >= before) return false;
  if (shift.from >= 0) {
    const int32_t least = p.least_blocks(expert, busy);
    if (share - blocks < least && share != blocks) blocks = share - least;
    if (blocks <= 0) return false;
  }
  state.shift(shift.from, shift.to, busy, shift.target, blocks);
  if (shift.from >= 0 && state.replica(shift.from).blocks == 0) state.drop(shift.from);
  return true;
}

}  // namespace refine

// Steps of level(). What they reach, they reach early: 4 R steps gave the same plans of recorded
// loads but for a few in a thousand (docs/decisions/0004-portfolio-members.md).
inline constexpr int32_t kLevelSteps = 8;

// Moves blocks from the rank that finishes last to ranks that share one of its experts and finish
// earlier, while its finish time can fall that way.
template <class Lanes>
MF_HOST_DEVICE void level(SearchView<Lanes>& state) {
  const ProblemView& p = state.problem();
  MF_UNROLL(1)
  for (int32_t step = 0; step < kLevelSteps; ++step) {
    const int32_t busy = refine::busiest(state);
    const int64_t before = state.finish(busy);
    if (before <= p.tau) return;
    const refine::Shift shift = refine::choose_shift(state, busy);
    if (shift.target < 0 || shift.finish >= before) return;
    if (!refine::apply(shift, busy, before, state)) return;
  }
}

namespace refine {

// Whether the blocks that rank m hosts as replica `i` may go on to the rank of replica `j`, an
// expert of m's.
template <class Lanes>
MF_HOST_DEVICE bool can_reroute(const SearchView<Lanes>& state, int32_t i, int32_t j) {
  const ProblemView& p = state.problem();
  const SearchReplica& in = state.replica(i);
  const SearchReplica& out = state.replica(j);
  if (out.blocks < in.blocks || p.owner[out.expert] != in.rank) return false;
  const int32_t rest = out.blocks - in.blocks;
  if (rest > 0 && rest < p.least_blocks(out.expert, out.rank)) return false;
  if (p.owner[in.expert] == out.rank || state.find(in.expert, out.rank) >= 0) return true;
  const bool frees_slot = rest == 0;
  if (state.slots_left(out.rank) == 0 && !frees_slot) return false;
  return !p.is_resident(in.expert, in.rank) || p.is_resident(in.expert, out.rank);
}

template <class Lanes>
MF_HOST_DEVICE void reroute(int32_t i, int32_t j, SearchView<Lanes>& state) {
  const SearchReplica in = state.replica(i);
  const SearchReplica out = state.replica(j);
  const int32_t joined = state.find(in.expert, out.rank);
  state.drop(i);
  state.add(j, -in.blocks);
  if (out.blocks == in.blocks) state.drop(j);
  if (joined >= 0) {
    state.add(joined, in.blocks);
  } else if (state.problem().owner[in.expert] != out.rank) {
    state.open(in.expert, out.rank, in.blocks);
  }
}

// Whether replicas of experts of `rank` run elsewhere.
template <class Lanes>
MF_HOST_DEVICE bool gives_away(const SearchView<Lanes>& state, int32_t rank) {
  const ProblemView& p = state.problem();
  bool gives = false;
  MF_UNROLL(8)
  for (int32_t e = p.first_owned[rank]; e < p.first_owned[rank + 1]; ++e) {
    gives |= state.first_replica(e) >= 0;
  }
  return gives;
}

// The first replica from `begin` on that a rank hosts while it gives away blocks of its own; `end`
// if there is none.
template <class Lanes>
MF_HOST_DEVICE int32_t next_detour(const SearchView<Lanes>& state, int32_t begin, int32_t end) {
  MF_UNROLL(1)
  for (; begin < end; begin += Lanes::kCount) {
    const int32_t i = begin + state.lanes().first();
    const bool found =
        i < end && state.replica(i).blocks > 0 && gives_away(state, state.replica(i).rank);
    const auto first = state.lanes().min(found ? i : end);
    if (first < end) return static_cast<int32_t>(first);
  }
  return end;
}

}  // namespace refine

// Reroutes a -> m -> x into a -> x where rank m hosts an expert of a and gives away as many blocks
// of its own to x: loads stay, moved blocks fall, and a replica whose blocks all came that way is
// gone. Example: ranks {1: hosts 1 block of expert 0; its own expert 2 has 3 blocks on rank 2}:
// rank 2 hosts expert 0's block and 2 blocks of expert 2. Returns how many times that was done.
template <class Lanes>
MF_HOST_DEVICE int32_t shorten(SearchView<Lanes>& state) {
  const int32_t count = state.num_replicas();
  int32_t num_reroutes = 0;
  MF_UNROLL(1)
  for (int32_t i = refine::next_detour(state, 0, count); i < count;
       i = refine::next_detour(state, i + 1, count)) {
    typename Lanes::Key first = Lanes::kNoKey;
    MF_UNROLL(1)
    for (int32_t j = state.lanes().first(); j < count && first == Lanes::kNoKey;
         j += Lanes::kCount) {
      if (refine::can_reroute(state, i, j)) first = static_cast<typename Lanes::Key>(j);
    }
    first = state.lanes().min(first);
    if (first == Lanes::kNoKey) continue;
    refine::reroute(i, static_cast<int32_t>(first), state);
    ++num_reroutes;
  }
  return num_reroutes;
}

}  // namespace megaflux
