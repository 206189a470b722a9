// The groups searches: repeatedly take the rank furthest above its capacity at T as donor and fill
// one receiver's whole deficit from it. The donor may fall below T and be filled later, so an
// overloaded rank may end up as a host. Every move uses one slot, and P - 1 moves suffice when
// single experts cover the deficits.
//
// Example: 8 ranks with one expert each, blocks {600, 560, 120, 120, 20, 10, 10, 10}, one slot, T =
// 182:
//   0 -> 5: 172, 1 -> 6: 172, 0 -> 7: 172, 1 -> 4: 162, 0 -> 2: 62, 1 -> 3: 62 (rank 1 is now 18
//   below T), 0 -> 1: 18. Seven replicas, no rank above 182.
#pragma once

#include <algorithm>
#include <cstdint>

#include "megaflux/plan/search/donor_turns.h"
#include "megaflux/plan/search/search_view.h"

namespace megaflux {

enum class DonorRule : uint8_t {
  kLargestExcess,
  kLargestExpert,  // among the ranks above the target; for when slots are short, not blocks
};

enum class ReceiverRule : uint8_t {
  kLargestDeficit,
  kSmallestCover,  // the smallest deficit that covers the donor's excess, else the largest
};

namespace groups {

struct Move {
  int32_t expert = -1;  // -1 = none
  int32_t blocks = 0;
};

// The expert that fills `deficit` of `receiver` from `donor`'s own share: one that needs no copy,
// else the smallest that covers the deficit, else the largest.
template <class Lanes>
MF_HOST_DEVICE Move choose_expert(const SearchView<Lanes>& state, int32_t donor, int32_t receiver,
                                  int32_t deficit) {
  const ProblemView& p = state.problem();
  typename Lanes::Key covering = Lanes::kNoKey, present = Lanes::kNoKey, largest = 0;
  for (int32_t e = p.first_owned[donor] + state.lanes().first(); e < p.first_owned[donor + 1];
       e += Lanes::kCount) {
    const int32_t left = state.own_left(e);
    if (left == 0 || state.holds(e, receiver)) continue;
    if (std::min(left, deficit) < state.least_to_open(e, receiver)) continue;
    if (left >= deficit) {
      covering = std::min(covering, Lanes::min_key(left, e));
      if (p.is_resident(e, receiver)) present = std::min(present, Lanes::min_key(0, e));
    }
    largest = std::max(largest, Lanes::max_key(left, e));
  }
  if (p.has_resident) present = state.lanes().min(present);
  if (present != Lanes::kNoKey) return {Lanes::id_of_min(present), deficit};
  covering = state.lanes().min(covering);
  if (covering != Lanes::kNoKey) return {Lanes::id_of_min(covering), deficit};
  largest = state.lanes().max(largest);
  // Only experts with blocks left were offered, so a key of value 0 is none.
  if (Lanes::value_of(largest) == 0) return {};
  return {Lanes::id_of_max(largest), static_cast<int32_t>(Lanes::value_of(largest))};
}

// Of the ranks above their capacity the furthest, or the one with the largest expert; -1 if none is
// above.
template <class Lanes>
MF_HOST_DEVICE int32_t choose_donor(const SearchView<Lanes>& state, DonorRule rule) {
  typename Lanes::Key best = 0;
  for (int32_t r = state.lanes().first(); r < state.problem().num_ranks; r += Lanes::kCount) {
    int32_t value = state.gap(r);
    if (value > 0 && rule == DonorRule::kLargestExpert) value = largest_left(state, r);
    best = std::max(best, Lanes::max_key(value, r));
  }
  best = state.lanes().max(best);
  return Lanes::value_of(best) == 0 ? -1 : Lanes::id_of_max(best);
}

// -1 if no rank with a free slot is below its capacity; ranks marked in rank_marks() are left out.
template <class Lanes>
MF_HOST_DEVICE int32_t choose_receiver(const SearchView<Lanes>& state, ReceiverRule rule,
                                       int32_t excess) {
  typename Lanes::Key largest = 0, covering = Lanes::kNoKey;
  for (int32_t r = state.lanes().first(); r < state.problem().num_ranks; r += Lanes::kCount) {
    const bool may_host = (state.slots_left(r) != 0) & (state.rank_marks()[r] == 0);
    const int32_t deficit = may_host ? -state.gap(r) : 0;
    largest = std::max(largest, Lanes::max_key(deficit, r));
    covering = std::min(covering, deficit >= excess ? Lanes::min_key(deficit, r) : Lanes::kNoKey);
  }
  if (rule == ReceiverRule::kSmallestCover) {
    covering = state.lanes().min(covering);
    if (covering != Lanes::kNoKey) return Lanes::id_of_min(covering);
  }
  largest = state.lanes().max(largest);
  return Lanes::value_of(largest) == 0 ? -1 : Lanes::id_of_max(largest);
}

template <class Lanes>
MF_HOST_DEVICE void mark_ranks(const SearchView<Lanes>& state, uint8_t mark) {
  state.lanes().sync();
  for (int32_t r = state.lanes().first(); r < state.problem().num_ranks; r += Lanes::kCount) {
    state.rank_marks()[r] = mark;
  }
  state.lanes().sync();
}

}  // namespace groups

// Runs one search from fixed placement to its end: no rank above the target, or no legal move left.
template <class Lanes>
MF_HOST_DEVICE void search_groups(DonorRule donors, ReceiverRule receivers, int64_t target,
                                  SearchView<Lanes>& state) {
  state.start(target);
  groups::mark_ranks(state, 0);
  bool has_marks = false;
  for (;;) {
    const int32_t donor = groups::choose_donor(state, donors);
    if (donor < 0) return;
    const int32_t excess = state.gap(donor);
    for (;;) {
      const int32_t receiver = groups::choose_receiver(state, receivers, excess);
      if (receiver < 0) return;
      const groups::Move move = groups::choose_expert(state, donor, receiver, -state.gap(receiver));
      if (move.expert >= 0) {
        state.open(move.expert, receiver, move.blocks);
        break;
      }
      // It holds, or is too small for, everything this donor has.
      state.lanes().sync();
      if (state.lanes().is_writer()) state.rank_marks()[receiver] = 1;
      state.lanes().sync();
      has_marks = true;
    }
    if (has_marks) groups::mark_ranks(state, 0);
    has_marks = false;
  }
}

}  // namespace megaflux
