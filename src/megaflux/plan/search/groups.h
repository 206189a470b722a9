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
  kLargestExpert,  // among the ranks above the target: few copies, and slots carry much
};

enum class ReceiverRule : uint8_t {
  kLargestDeficit,
  kSmallestCover,  // the smallest deficit that covers the donor's excess, else the largest
};

namespace groups {

// The best donor's key: of the ranks above their capacity the furthest, and how far, or the one
// with the largest expert, and what is left of it; scratch() has each rank's.
template <DonorRule kDonors, class Lanes>
MF_HOST_DEVICE typename Lanes::Key best_donor(const SearchView<Lanes>& state) {
  typename Lanes::Key best = 0;
  const int32_t num_own = state.lanes().num_own(state.problem().num_ranks);
  for (int32_t i = 0; i < num_own; ++i) {
    int32_t value = state.own_gap(i);
    if (kDonors == DonorRule::kLargestExpert && value > 0) value = state.scratch().own(i);
    best = std::max(best, Lanes::max_key(value, state.lanes().rank_of(i)));
  }
  return state.lanes().max(best);
}

// The best receiver's key below `below`: a rank with a free slot below its capacity.
template <ReceiverRule kReceivers, class Lanes>
MF_HOST_DEVICE typename Lanes::Key best_receiver(const SearchView<Lanes>& state, int32_t excess,
                                                 typename Lanes::Key below) {
  typename Lanes::Key best = 0;
  const int32_t num_own = state.lanes().num_own(state.problem().num_ranks);
  for (int32_t i = 0; i < num_own; ++i) {
    const int32_t deficit = state.own_slots(i) != 0 ? -state.own_gap(i) : 0;
    const bool covers = kReceivers == ReceiverRule::kSmallestCover && deficit >= excess;
    const auto value = covers ? Lanes::kMaxValue - deficit : deficit;
    const auto key = Lanes::max_key(value, state.lanes().rank_of(i));
    best = std::max(best, key < below ? key : 0);
  }
  return state.lanes().max(best);
}

// The receiver that a key stands for, and how far it is below its capacity.
template <class Lanes>
MF_HOST_DEVICE Choice receiver_of(typename Lanes::Key key) {
  const auto value = Lanes::value_of(key);
  const auto deficit = Lanes::covers(value) ? Lanes::kMaxValue - value : value;
  return {Lanes::id_of_max(key), static_cast<int32_t>(deficit)};
}

// What one of a donor's experts is worth to a receiver: one that covers the deficit and needs no
// copy comes first, then the smallest that covers it, then the largest; 0 = it may not go.
template <class Lanes>
MF_HOST_DEVICE typename Lanes::Key worth(const SearchView<Lanes>& state, int32_t e,
                                         const SearchExpert& expert, const Choice& receiver) {
  const ProblemView& p = state.problem();
  const int32_t least = Lanes::kIsPlain ? p.lambda_blocks + 1 : state.least_to_open(e, receiver.id);
  const bool covers = expert.left >= receiver.blocks;
  const bool may_go =
      (std::min(expert.left, receiver.blocks) >= least) & !state.holds(e, expert, receiver.id);
  auto value = Lanes::cover_value(expert.left, receiver.blocks);
  if (!Lanes::kIsPlain && covers && p.is_resident(e, receiver.id)) value = Lanes::kMaxValue;
  return may_go ? value : 0;
}

// What a lane found among a donor's experts.
template <class Lanes>
struct Find {
  typename Lanes::Key key = 0;
  SearchExpert expert;  // of the key
  int32_t others = 0;   // most that is left of another one
};

// kOneEach: there is a lane for every expert of an owner, and no need to branch.
template <bool kOneEach, class Lanes>
MF_HOST_DEVICE Find<Lanes> find_expert(const SearchView<Lanes>& state, int32_t donor,
                                       const Choice& receiver) {
  const ProblemView& p = state.problem();
  const int32_t begin = p.first_owned[donor], end = p.first_owned[donor + 1];
  const int32_t mine = begin + state.lanes().first();
  Find<Lanes> find;
  if constexpr (kOneEach) {
    find.expert = state.expert(mine < end ? mine : begin);
    const auto key = Lanes::max_key(worth(state, mine, find.expert, receiver), mine);
    find.key = mine < end ? key : 0;
    find.expert.left = mine < end ? find.expert.left : 0;
  } else {
    MF_UNROLL(1)
    for (int32_t e = mine; e < end; e += Lanes::kCount) {
      const SearchExpert expert = state.expert(e);
      const auto key = Lanes::max_key(worth(state, e, expert, receiver), e);
      const bool leads = key > find.key;
      find.others = std::max(find.others, leads ? find.expert.left : expert.left);
      if (leads) find.expert = expert;
      find.key = std::max(find.key, key);
    }
  }
  return find;
}

// Fills the deficit of `receiver` from `donor`'s own share of one expert; false if none of them may
// go there.
template <DonorRule kDonors, bool kOneEach, class Lanes>
MF_HOST_DEVICE bool give(int32_t donor, const Choice& receiver, SearchView<Lanes>& state) {
  const Find<Lanes> find = find_expert<kOneEach>(state, donor, receiver);
  const auto most = state.lanes().max(find.key);
  const auto value = Lanes::value_of(most);
  if (value == 0) return false;
  const int32_t blocks = Lanes::covers(value) ? receiver.blocks : static_cast<int32_t>(value);
  const bool is_finder = most == find.key;
  state.open_found(is_finder, Lanes::id_of_max(most), find.expert, donor, receiver.id, blocks);
  if constexpr (kDonors == DonorRule::kLargestExpert) {
    const int32_t left = std::max(find.others, find.expert.left - (is_finder ? blocks : 0));
    const auto largest = state.lanes().max(static_cast<typename Lanes::Key>(left));
    state.scratch().replace_own(donor, static_cast<int32_t>(largest));
  }
  return true;
}

// Notes the largest expert of each rank; they stand by descending size.
template <class Lanes>
MF_HOST_DEVICE void rate_experts(SearchView<Lanes>& state) {
  const ProblemView& p = state.problem();
  const int32_t num_own = state.lanes().num_own(p.num_ranks);
  for (int32_t i = 0; i < num_own; ++i) {
    const int32_t r = state.lanes().rank_of(i);
    const bool has_experts = r < p.num_ranks && p.first_owned[r] < p.first_owned[r + 1];
    state.scratch().set_own(i, has_experts ? p.blocks[p.first_owned[r]] : 0);
  }
}

template <DonorRule kDonors, ReceiverRule kReceivers, bool kOneEach, class Lanes>
MF_HOST_DEVICE void move_all(SearchView<Lanes>& state) {
  constexpr bool kCovers = kReceivers == ReceiverRule::kSmallestCover;
  if constexpr (kDonors == DonorRule::kLargestExpert) rate_experts(state);
  MF_UNROLL(1)
  for (;;) {
    const auto key = best_donor<kDonors>(state);
    typename Lanes::Key receiver = 0;
    // Joined beside the donor: the two do not wait for each other.
    if constexpr (!kCovers) receiver = best_receiver<kReceivers>(state, 0, Lanes::kNoKey);
    auto excess = static_cast<int32_t>(Lanes::value_of(key));
    if (excess == 0) return;
    const int32_t donor = Lanes::id_of_max(key);
    if constexpr (kCovers) {
      if (kDonors == DonorRule::kLargestExpert) excess = state.told_gap(donor);
      receiver = best_receiver<kReceivers>(state, excess, Lanes::kNoKey);
    }
    MF_UNROLL(1)
    for (;;) {
      if (Lanes::value_of(receiver) == 0) return;
      if (give<kDonors, kOneEach>(donor, receiver_of<Lanes>(receiver), state)) break;
      // That one holds, or is too small for, everything this donor has.
      receiver = best_receiver<kReceivers>(state, excess, receiver);
    }
  }
}

template <bool kOneEach, class Lanes>
MF_HOST_DEVICE void move_all(DonorRule donors, ReceiverRule receivers, SearchView<Lanes>& state) {
  using enum DonorRule;
  using enum ReceiverRule;
  if (donors == kLargestExcess) {
    if (receivers == kLargestDeficit)
      return move_all<kLargestExcess, kLargestDeficit, kOneEach>(state);
    return move_all<kLargestExcess, kSmallestCover, kOneEach>(state);
  }
  if (receivers == kLargestDeficit)
    return move_all<kLargestExpert, kLargestDeficit, kOneEach>(state);
  return move_all<kLargestExpert, kSmallestCover, kOneEach>(state);
}

}  // namespace groups

// Runs one search from fixed placement to its end: no rank above the target, or no legal move left.
template <class Lanes>
MF_HOST_DEVICE void search_groups(DonorRule donors, ReceiverRule receivers, int64_t target,
                                  SearchView<Lanes>& state) {
  const ProblemView& p = state.problem();
  state.start(target);
  if constexpr (Lanes::kIsPlain) {
    if (p.most_owned <= Lanes::kCount) {
      groups::move_all<true>(donors, receivers, state);
    } else {
      groups::move_all<false>(donors, receivers, state);
    }
  } else {
    groups::move_all<false>(donors, receivers, state);
  }
  state.publish();
}

}  // namespace megaflux
