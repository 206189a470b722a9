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

// The expert that fills `deficit` of `receiver` from `donor`'s own share: one that needs no copy,
// else the smallest that covers the deficit, else the largest.
template <class Lanes>
MF_HOST_DEVICE Choice choose_expert(const SearchView<Lanes>& state, int32_t donor, int32_t receiver,
                                    int32_t deficit) {
  const ProblemView& p = state.problem();
  typename Lanes::Key best = 0, present = Lanes::kNoKey;
  MF_UNROLL(1)
  for (int32_t e = p.first_owned[donor] + state.lanes().first(); e < p.first_owned[donor + 1];
       e += Lanes::kCount) {
    const int32_t left = state.expert(e).left;
    const bool may_go = left > 0 && !state.holds(e, receiver) &&
                        std::min(left, deficit) >= state.least_to_open(e, receiver);
    const auto value = may_go ? Lanes::cover_value(left, deficit) : 0;
    best = std::max(best, Lanes::max_key(value, e));
    if (p.has_resident && may_go && left >= deficit && p.is_resident(e, receiver)) {
      present = std::min(present, Lanes::min_key(0, e));
    }
  }
  if (p.has_resident) present = state.lanes().min(present);
  if (present != Lanes::kNoKey) return {Lanes::id_of_min(present), deficit};
  best = state.lanes().max(best);
  // Only experts with blocks left were offered, so a key of value 0 is none.
  const auto value = Lanes::value_of(best);
  if (value == 0) return {};
  return {Lanes::id_of_max(best), Lanes::covers(value) ? deficit : static_cast<int32_t>(value)};
}

// Of the ranks above their capacity the furthest, or the one with the largest expert, and how far
// it is above.
template <class Lanes>
MF_HOST_DEVICE Choice choose_donor(const SearchView<Lanes>& state, DonorRule rule) {
  typename Lanes::Key best = 0;
  const int32_t num_own = state.lanes().num_own(state.problem().num_ranks);
  for (int32_t i = 0; i < num_own; ++i) {
    const int32_t r = state.lanes().rank_of(i);
    int32_t value = state.own_gap(i);
    if (value > 0 && rule == DonorRule::kLargestExpert) value = largest_left(state, r);
    best = std::max(best, Lanes::max_key(value, r));
  }
  best = state.lanes().max(best);
  const auto value = static_cast<int32_t>(Lanes::value_of(best));
  if (value == 0) return {};
  const int32_t donor = Lanes::id_of_max(best);
  return {donor, rule == DonorRule::kLargestExpert ? state.gap(donor) : value};
}

// A rank with a free slot below its capacity, and how far; ranks marked in scratch() are left out.
template <class Lanes>
MF_HOST_DEVICE Choice choose_receiver(const SearchView<Lanes>& state, ReceiverRule rule,
                                      int32_t excess) {
  typename Lanes::Key best = 0;
  const int32_t num_own = state.lanes().num_own(state.problem().num_ranks);
  for (int32_t i = 0; i < num_own; ++i) {
    const bool may_host = (state.own_slots(i) != 0) & (state.scratch().own(i) == 0);
    const int32_t deficit = may_host ? -state.own_gap(i) : 0;
    const bool covers = rule == ReceiverRule::kSmallestCover && deficit >= excess;
    const auto value = covers ? Lanes::kMaxValue - deficit : deficit;
    best = std::max(best, Lanes::max_key(value, state.lanes().rank_of(i)));
  }
  best = state.lanes().max(best);
  const auto value = Lanes::value_of(best);
  if (value == 0) return {};
  const auto deficit = Lanes::covers(value) ? Lanes::kMaxValue - value : value;
  return {Lanes::id_of_max(best), static_cast<int32_t>(deficit)};
}

// Marks all ranks as receivers that may be tried.
template <class Lanes>
MF_HOST_DEVICE void clear_marks(SearchView<Lanes>& state) {
  const int32_t num_own = state.lanes().num_own(state.problem().num_ranks);
  for (int32_t i = 0; i < num_own; ++i) state.scratch().set_own(i, 0);
}

}  // namespace groups

// Runs one search from fixed placement to its end: no rank above the target, or no legal move left.
template <class Lanes>
MF_HOST_DEVICE void search_groups(DonorRule donors, ReceiverRule receivers, int64_t target,
                                  SearchView<Lanes>& state) {
  state.start(target);
  MF_UNROLL(1)
  for (;;) {
    const Choice donor = groups::choose_donor(state, donors);
    if (donor.id < 0) return;
    bool has_marks = false;
    MF_UNROLL(1)
    for (;;) {
      const Choice receiver = groups::choose_receiver(state, receivers, donor.blocks);
      if (receiver.id < 0) return;
      const Choice expert = groups::choose_expert(state, donor.id, receiver.id, receiver.blocks);
      if (expert.id >= 0) {
        state.open(expert.id, donor.id, receiver.id, expert.blocks);
        break;
      }
      // It holds, or is too small for, everything this donor has.
      state.scratch().add(receiver.id, 1);
      has_marks = true;
    }
    if (has_marks) groups::clear_marks(state);
  }
}

}  // namespace megaflux
