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

// Whether the smallest replica fits into what all ranks together can take on: if not, none can go.
template <class Lanes>
MF_HOST_DEVICE bool may_have_room(const SearchView<Lanes>& state, int64_t limit) {
  const ProblemView& p = state.problem();
  const int32_t num_own = state.lanes().num_own(p.num_ranks);
  int64_t all = 0;
  for (int32_t i = 0; i < num_own; ++i) {
    const int32_t r = state.lanes().rank_of(i);
    if (r < p.num_ranks) all += std::max(0, room(state, r, limit));
  }
  all = state.lanes().sum(all) + p.lambda_blocks;
  typename Lanes::Key smallest = Lanes::kNoKey;
  MF_UNROLL(1)
  for (int32_t i = state.lanes().first(); i < state.num_replicas(); i += Lanes::kCount) {
    const int32_t blocks = state.replica(i).blocks;
    if (blocks > 0) smallest = std::min(smallest, static_cast<typename Lanes::Key>(blocks));
  }
  return state.lanes().min(smallest) <= all;
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
  int32_t end = refine::may_have_room(state, limit) ? state.num_replicas() : 0;
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

// The rank of the instance that a replica stands for: its own, if another instance of the expert is
// on `busy`; its owner's, if it is on `busy` itself; -1 = none.
template <class Lanes>
MF_HOST_DEVICE int32_t offered_rank(const SearchView<Lanes>& state, const SearchReplica& replica,
                                    int32_t busy) {
  if (replica.blocks == 0) return -1;
  const SearchExpert expert = state.expert(replica.expert);
  const int32_t owner = state.problem().owner[replica.expert];
  if (replica.rank == busy) return owner;
  const bool is_shared = state.holds(replica.expert, expert, busy);
  return is_shared && (owner != busy || expert.left > 0) ? replica.rank : -1;
}

// The shift to the instance that finishes first, if it does so before `before`.
template <class Lanes>
MF_HOST_DEVICE Shift choose_shift(const SearchView<Lanes>& state, int32_t busy, int64_t before) {
  typename Lanes::Key best = Lanes::kNoKey;
  int32_t position = INT32_MAX;
  MF_UNROLL(1)
  for (int32_t i = state.lanes().first(); i < state.num_replicas(); i += Lanes::kCount) {
    const int32_t target = offered_rank(state, state.replica(i), busy);
    if (target < 0) continue;
    const auto instance = Lanes::min_key(state.finish(target), target);
    if (instance < best) position = i;
    best = std::min(best, instance);
  }
  const auto instance = state.lanes().min(best);
  const auto finish = static_cast<int64_t>(Lanes::value_of(instance));
  if (instance == Lanes::kNoKey || finish >= before) return {};
  position = static_cast<int32_t>(state.lanes().min(best == instance ? position : INT32_MAX));
  const SearchReplica replica = state.replica(position);
  const int32_t target = Lanes::id_of_min(instance);
  if (replica.rank == busy) return {position, -1, target, finish};
  const bool owner_gives = state.problem().owner[replica.expert] == busy;
  return {owner_gives ? -1 : state.find(replica.expert, busy), position, target, finish};
}

// The rank that finishes last, lowest id on ties, as a key.
template <class Lanes>
MF_HOST_DEVICE typename Lanes::Key busiest(const SearchView<Lanes>& state) {
  typename Lanes::Key last = 0;
  const int32_t num_own = state.lanes().num_own(state.problem().num_ranks);
  for (int32_t i = 0; i < num_own; ++i) {
    const int32_t r = state.lanes().rank_of(i);
    if (r < state.problem().num_ranks) {
      last = std::max(last, Lanes::max_key(state.own_finish(i), r));
    }
  }
  return state.lanes().max(last);
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
// loads but for a few in a thousand (docs/decisions/0012-portfolio-for-a-device.md).
inline constexpr int32_t kLevelSteps = 4;

// How many ranks finish after what is accepted.
template <class Lanes>
MF_HOST_DEVICE int32_t num_late(const SearchView<Lanes>& state) {
  int32_t late = 0;
  const ProblemView& p = state.problem();
  const int32_t num_own = state.lanes().num_own(p.num_ranks);
  for (int32_t i = 0; i < num_own; ++i) {
    const bool exists = state.lanes().rank_of(i) < p.num_ranks;
    late += exists && state.own_finish(i) > p.accepted ? 1 : 0;
  }
  return static_cast<int32_t>(state.lanes().sum(late));
}

// Moves blocks from the rank that finishes last to ranks that share one of its experts and finish
// earlier, while its finish time can fall that way.
template <class Lanes>
MF_HOST_DEVICE void level(SearchView<Lanes>& state) {
  const ProblemView& p = state.problem();
  MF_UNROLL(1)
  for (int32_t step = 0; step < kLevelSteps; ++step) {
    const auto last = refine::busiest(state);
    const int32_t busy = Lanes::id_of_max(last);
    const auto before = static_cast<int64_t>(Lanes::value_of(last));
    if (before <= p.tau) return;
    const refine::Shift shift = refine::choose_shift(state, busy, before);
    if (shift.target < 0 || !refine::apply(shift, busy, before, state)) return;
  }
}

namespace refine {

// Whether the blocks that rank m hosts as replica `in` may go on to the rank of replica `out`, an
// expert of m's.
template <class Lanes>
MF_HOST_DEVICE bool can_reroute(const SearchView<Lanes>& state, const SearchReplica& in,
                                const SearchReplica& out) {
  const ProblemView& p = state.problem();
  if (out.blocks < in.blocks || p.owner[out.expert] != in.rank) return false;
  const int32_t rest = out.blocks - in.blocks;
  if (rest > 0 && rest < p.least_blocks(out.expert, out.rank)) return false;
  if (state.holds(in.expert, out.rank)) return true;
  const bool frees_slot = rest == 0;
  if (state.slots_left(out.rank) == 0 && !frees_slot) return false;
  return !p.is_resident(in.expert, in.rank) || p.is_resident(in.expert, out.rank);
}

template <class Lanes>
MF_HOST_DEVICE void reroute(int32_t i, int32_t j, SearchView<Lanes>& state) {
  const SearchReplica in = state.replica(i);
  const SearchReplica out = state.replica(j);
  if (!state.holds(in.expert, out.rank)) {
    state.pass_on(i, j);
  } else {
    const int32_t joined = state.find(in.expert, out.rank);  // -1 = the owner has them back
    state.drop(i);
    state.add(j, -in.blocks);
    if (joined >= 0) state.add(joined, in.blocks);
  }
  if (out.blocks == in.blocks) state.drop(j);
}

// The first replica before `count` that the blocks of replica `in` may go on to; -1 = none.
template <class Lanes>
MF_HOST_DEVICE int32_t find_way(const SearchView<Lanes>& state, const SearchReplica& in,
                                int32_t count) {
  const ProblemView& p = state.problem();
  const SearchExpert expert = state.expert(in.expert);
  int32_t first = -1;
  MF_UNROLL(4)
  for (int32_t j = 0; j < count; ++j) {
    const SearchReplica out = state.replica(j);
    // Without a branch, since most do not fit.
    bool fits = (first < 0) & (in.blocks > 0) & (out.blocks >= in.blocks);
    fits = fits & (p.owner[out.expert] == in.rank);
    fits = fits & ((state.slots_left(out.rank) > 0) | (out.blocks == in.blocks) |
                   state.holds(in.expert, expert, out.rank));
    if (p.has_least || p.has_resident) fits = fits && can_reroute(state, in, out);
    first = fits ? j : first;
  }
  return first;
}

// Notes for every replica where its blocks may go on to.
template <class Lanes>
MF_HOST_DEVICE void find_ways(int32_t count, SearchView<Lanes>& state) {
  state.lanes().sync();
  MF_UNROLL(1)
  for (int32_t i = state.lanes().first(); i < count; i += Lanes::kCount) {
    state.set_note(i, find_way(state, state.replica(i), count));
  }
  state.lanes().sync();
}

// The first replica from `begin` on that has a way; `end` if there is none.
template <class Lanes>
MF_HOST_DEVICE int32_t next_way(const SearchView<Lanes>& state, int32_t begin, int32_t end) {
  MF_UNROLL(1)
  for (; begin < end; begin += Lanes::kCount) {
    const int32_t i = begin + state.lanes().first();
    const auto first = state.lanes().min(i < end && state.note(i) >= 0 ? i : end);
    if (first < end) return static_cast<int32_t>(first);
  }
  return end;
}

}  // namespace refine

// Problems with more ranks are left as they are (docs/decisions/0012-portfolio-for-a-device.md).
inline constexpr int32_t kShortenRanks = 32;

// Reroutes a -> m -> x into a -> x where rank m hosts an expert of a and gives away as many blocks
// of its own to x: loads stay, moved blocks fall, and a replica whose blocks all came that way is
// gone. Example: ranks {1: hosts 1 block of expert 0; its own expert 2 has 3 blocks on rank 2}:
// rank 2 hosts expert 0's block and 2 blocks of expert 2. Returns how many times that was done.
template <class Lanes>
MF_HOST_DEVICE int32_t shorten(SearchView<Lanes>& state) {
  if (state.problem().num_ranks > kShortenRanks) return 0;
  const int32_t count = state.num_replicas();
  int32_t num_reroutes = 0;
  refine::find_ways(count, state);
  MF_UNROLL(1)
  for (int32_t i = refine::next_way(state, 0, count); i < count;
       i = refine::next_way(state, i + 1, count)) {
    const int32_t j = state.note(i);
    // Reroutes before may have taken its place.
    if (state.replica(i).blocks == 0) continue;
    if (!refine::can_reroute(state, state.replica(i), state.replica(j))) continue;
    refine::reroute(i, j, state);
    ++num_reroutes;
  }
  return num_reroutes;
}

}  // namespace megaflux
