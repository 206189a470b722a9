#include "megaflux/plan/refine.h"

#include <limits>

namespace megaflux {
namespace {

// Blocks that `rank` can take on before it finishes after `limit`.
int32_t room(const SearchState& state, int32_t rank, int64_t limit) {
  return state.problem().capacity(rank, limit) - state.load(rank);
}

// Moves up to `blocks` of replica `i` to the other instances of its expert, none of which passes
// `limit`. Returns what is left to move. With `apply` false nothing changes.
int32_t hand_over(int32_t i, int64_t limit, bool apply, SearchState& state) {
  const DomainProblem& p = state.problem();
  const int32_t expert = state.replicas()[i].expert;
  // Without the replica its owner no longer pays lambda for it.
  const int64_t own_room = int64_t{room(state, p.owner[expert], limit)} + p.lambda_blocks;
  const int32_t blocks = state.replicas()[i].blocks;
  int32_t rest = blocks - static_cast<int32_t>(std::clamp<int64_t>(own_room, 0, blocks));
  for (int32_t j = state.first_replica(expert); j >= 0 && rest > 0; j = state.replicas()[j].next) {
    if (j == i) continue;
    const int32_t take = std::min(rest, room(state, state.replicas()[j].rank, limit));
    if (take <= 0) continue;
    rest -= take;
    if (apply) {
      state.add(i, -take);
      state.add(j, take);
    }
  }
  return rest;
}

}  // namespace

int64_t max_finish(const SearchState& state) {
  int64_t most = 0;
  for (int32_t r = 0; r < state.problem().num_ranks; ++r) most = std::max(most, state.finish(r));
  return most;
}

void trim(int64_t limit, SearchState& state) {
  for (int32_t i = static_cast<int32_t>(state.replicas().size()) - 1; i >= 0; --i) {
    if (state.replicas()[i].blocks == 0 || hand_over(i, limit, false, state) > 0) continue;
    hand_over(i, limit, true, state);
    state.drop(i);
  }
}

namespace {

// One move that lowers the finish time of `busy`: from one of its instances to the instance of the
// same expert on the rank that finishes first.
struct Shift {
  int32_t from = -1;    // position of the replica that gives, -1 = the owner's share
  int32_t to = -1;      // position of the replica that takes, -1 = the owner's share
  int32_t target = -1;  // rank of `to`, -1 = no move
  int64_t finish = std::numeric_limits<int64_t>::max();
};

// Offers the instance (`position`, `rank`) as the taking end.
void offer(const SearchState& state, int32_t from, int32_t position, int32_t rank, Shift& best) {
  const int64_t finish = state.finish(rank);
  if (finish < best.finish || (finish == best.finish && rank < best.target)) {
    best = {from, position, rank, finish};
  }
}

Shift choose_shift(const SearchState& state, int32_t busy) {
  const DomainProblem& p = state.problem();
  Shift best;
  for (int32_t i = 0; i < static_cast<int32_t>(state.replicas().size()); ++i) {
    const SearchReplica& replica = state.replicas()[i];
    if (replica.blocks == 0) continue;
    const int32_t owner = p.owner[replica.expert];
    if (owner == busy && state.own_left(replica.expert) > 0)
      offer(state, -1, i, replica.rank, best);
    if (replica.rank != busy) continue;
    offer(state, i, -1, owner, best);
    for (int32_t j = state.first_replica(replica.expert); j >= 0; j = state.replicas()[j].next) {
      if (j != i) offer(state, i, j, state.replicas()[j].rank, best);
    }
  }
  return best;
}

}  // namespace

void level(SearchState& state) {
  const DomainProblem& p = state.problem();
  for (int32_t step = 0; step < 4 * p.num_ranks; ++step) {
    int32_t busy = 0;
    for (int32_t r = 1; r < p.num_ranks; ++r) {
      if (state.finish(r) > state.finish(busy)) busy = r;
    }
    const int64_t before = state.finish(busy);
    if (before <= p.tau) return;
    const Shift shift = choose_shift(state, busy);
    if (shift.target < 0 || shift.finish >= before) return;
    const int32_t expert = state.replicas()[std::max(shift.from, shift.to)].expert;
    const int32_t share =
        shift.from < 0 ? state.own_left(expert) : state.replicas()[shift.from].blocks;
    // Half the distance for equal speeds; the check below rejects a step that goes too far.
    const int32_t distance = room(state, shift.target, before);
    int32_t blocks = std::min(share, std::max(1, distance / 2 + distance % 2));
    if (p.finish(shift.target, state.load(shift.target) + blocks) >= before) return;
    if (shift.from >= 0) {
      const int32_t least = p.least_blocks(expert, busy);
      if (share - blocks < least && share != blocks) blocks = share - least;
      if (blocks <= 0) return;
      state.add(shift.from, -blocks);
    }
    if (shift.to >= 0) state.add(shift.to, blocks);
    if (shift.from >= 0 && state.replicas()[shift.from].blocks == 0) state.drop(shift.from);
  }
}

void shorten(SearchState& state) {
  const DomainProblem& p = state.problem();
  const int32_t count = static_cast<int32_t>(state.replicas().size());
  for (int32_t i = 0; i < count; ++i) {
    const SearchReplica in = state.replicas()[i];  // blocks that rank m = in.rank hosts
    if (in.blocks == 0) continue;
    for (int32_t j = 0; j < count; ++j) {
      const SearchReplica out = state.replicas()[j];  // blocks that m gives away
      if (out.blocks < in.blocks || p.owner[out.expert] != in.rank) continue;
      const int32_t rest = out.blocks - in.blocks;
      if (rest > 0 && rest < p.least_blocks(out.expert, out.rank)) continue;
      const int32_t joined = state.find(in.expert, out.rank);
      const bool is_owner = p.owner[in.expert] == out.rank;
      const bool frees_slot = rest == 0;
      if (!is_owner && joined < 0 && state.slots_left(out.rank) == 0 && !frees_slot) continue;
      if (!is_owner && joined < 0 && p.is_resident(in.expert, in.rank) &&
          !p.is_resident(in.expert, out.rank)) {
        continue;
      }
      state.drop(i);
      state.add(j, -in.blocks);
      if (rest == 0) state.drop(j);
      if (joined >= 0) {
        state.add(joined, in.blocks);
      } else if (!is_owner) {
        state.open(in.expert, out.rank, in.blocks);
      }
      break;
    }
  }
}

}  // namespace megaflux
