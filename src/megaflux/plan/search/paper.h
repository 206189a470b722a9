// The four greedy searches of the paper. In each of at most s P + 2 rounds the donors, ranks above
// tau, take turns; a turn gives blocks of one owned expert, the one with most left. A move takes
// min(what the owner has left, what the receiver lacks to tau), so a donor may fall below tau and
// receive later. Receivers that hold the expert come first (active replicas, then resident copies:
// neither needs a transfer), then fresh slots; the lightest rank first.
//
// Example: blocks {9, 5, 7, 3, 3, 2, 2, 1}, 4 ranks with two experts each, loads {14, 10, 5, 3},
// tau 8.
//   Round 1: rank 0, expert 0: 5 blocks to rank 3; rank 1, expert 2: 3 blocks to rank 2 (rank 1 now
//   lacks 1). Round 2: rank 0, expert 1, which has 5 left, expert 0 only 4: 1 block to rank 1.
//   Loads {8, 8, 8, 8}, 3 replicas, 9 blocks moved.
#pragma once

#include <algorithm>
#include <cstdint>

#include "megaflux/plan/search/donor_turns.h"
#include "megaflux/plan/search/search_view.h"

namespace megaflux {

enum class CopiesPerRound : uint8_t { kOne, kSeveral };  // new copies per expert and round

namespace paper {

// Blocks of `expert` that `receiver` may take.
template <class Lanes>
MF_HOST_DEVICE int32_t amount(const SearchView<Lanes>& state, int32_t expert, int32_t receiver) {
  return std::min(state.own_left(expert), -state.gap(receiver));
}

enum class Receivers : uint8_t { kResident, kAny };

// The lightest rank below its capacity on which a new replica of expert `e` pays, and how many
// blocks it takes.
template <class Lanes>
MF_HOST_DEVICE Choice lightest(const SearchView<Lanes>& state, int32_t e, Receivers receivers) {
  const ProblemView& p = state.problem();
  const SearchExpert expert = state.expert(e);
  typename Lanes::Key best = 0;
  const int32_t num_own = state.lanes().num_own(p.num_ranks);
  for (int32_t i = 0; i < num_own; ++i) {
    const int32_t r = state.lanes().rank_of(i);
    const int32_t deficit = -state.own_gap(i);
    bool may_host = deficit > 0 && state.own_slots(i) != 0 && !state.own_holds(e, expert, i);
    if (may_host) {
      may_host = std::min(expert.left, deficit) >= state.least_to_open(e, r) &&
                 (receivers == Receivers::kAny || p.is_resident(e, r));
    }
    best = std::max(best, Lanes::max_key(may_host ? deficit : 0, r));
  }
  best = state.lanes().max(best);
  const auto deficit = static_cast<int32_t>(Lanes::value_of(best));
  if (deficit == 0) return {};
  return {Lanes::id_of_max(best), std::min(expert.left, deficit)};
}

// The replica of `expert` on the lightest rank below its capacity, -1 if none.
template <class Lanes>
MF_HOST_DEVICE int32_t lightest_replica(const SearchView<Lanes>& state, int32_t expert) {
  int32_t best = -1;
  typename Lanes::Key best_key = 0;
  MF_UNROLL(1)
  for (int32_t i = state.first_replica(expert); i >= 0; i = state.replica(i).next) {
    const int32_t rank = state.replica(i).rank;
    if (state.gap(rank) >= 0) continue;
    const auto key = Lanes::max_key(-int64_t{state.gap(rank)}, rank);
    if (key > best_key) best = i;
    best_key = std::max(best_key, key);
  }
  return best;
}

// Gives blocks of one expert away while its owner is above tau; returns whether anything moved.
template <class Lanes>
MF_HOST_DEVICE bool spread_expert(CopiesPerRound copies, int32_t expert, SearchView<Lanes>& state) {
  const ProblemView& p = state.problem();
  const int32_t donor = p.owner[expert];
  bool moved = false;
  MF_UNROLL(1)
  while (state.gap(donor) > 0 && state.own_left(expert) > 0) {
    const int32_t i = lightest_replica(state, expert);
    if (i < 0) break;
    state.add(i, amount(state, expert, state.replica(i).rank));
    moved = true;
  }
  // Resident copies first, all of them; then fresh slots.
  Receivers receivers = p.has_resident ? Receivers::kResident : Receivers::kAny;
  MF_UNROLL(1)
  while (state.gap(donor) > 0 && state.own_left(expert) > 0) {
    const Choice receiver = lightest(state, expert, receivers);
    if (receiver.id < 0 && receivers == Receivers::kAny) break;
    if (receiver.id < 0) {
      receivers = Receivers::kAny;
      continue;
    }
    state.open(expert, donor, receiver.id, receiver.blocks);
    moved = true;
    if (receivers == Receivers::kAny && copies == CopiesPerRound::kOne) break;
  }
  return moved;
}

// Whether any rank below its capacity has a free slot.
template <class Lanes>
MF_HOST_DEVICE bool has_free_slot(const SearchView<Lanes>& state) {
  int32_t found = 0;
  const int32_t num_own = state.lanes().num_own(state.problem().num_ranks);
  for (int32_t i = 0; i < num_own; ++i) {
    found |= state.own_gap(i) < 0 && state.own_slots(i) != 0 ? 1 : 0;
  }
  return state.lanes().max(found) != 0;
}

// One donor's turn: the expert with most left that can move at all; whether anything moved.
template <class Lanes>
MF_HOST_DEVICE bool donate(CopiesPerRound copies, int32_t donor, SearchView<Lanes>& state) {
  const ProblemView& p = state.problem();
  if (state.gap(donor) <= 0) return false;
  typename Lanes::Key tried = Lanes::kNoKey;
  // Without a free slot only experts that have replicas can move.
  const bool any_can_move = has_free_slot(state);
  MF_UNROLL(1)
  for (;;) {
    typename Lanes::Key most = 0;
    MF_UNROLL(1)
    for (int32_t e = p.first_owned[donor] + state.lanes().first(); e < p.first_owned[donor + 1];
         e += Lanes::kCount) {
      const SearchExpert expert = state.expert(e);
      const auto key = Lanes::max_key(expert.left, e);
      if (key < tried && (any_can_move || expert.head >= 0)) most = std::max(most, key);
    }
    most = state.lanes().max(most);
    if (Lanes::value_of(most) == 0) return false;
    if (spread_expert(copies, Lanes::id_of_max(most), state)) return true;
    tried = most;
  }
}

}  // namespace paper

// Runs one search from fixed placement to its end; trimming and levelling follow in refine.h.
template <class Lanes>
MF_HOST_DEVICE void search_paper(DonorOrder order, CopiesPerRound copies,
                                 SearchView<Lanes>& state) {
  const ProblemView& p = state.problem();
  state.start(p.tau);
  const int32_t max_rounds = p.replica_slots * p.num_ranks + 2;
  MF_UNROLL(1)
  for (int32_t round = 0; round < max_rounds; ++round) {
    rate_donors(order, state);
    bool moved = false;
    MF_UNROLL(1)
    for (int32_t donor = next_donor(state); donor >= 0; donor = next_donor(state)) {
      moved |= paper::donate(copies, donor, state);
    }
    if (!moved) return;
  }
}

}  // namespace megaflux
