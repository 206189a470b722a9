// Donors, the ranks above their capacity, take turns in an order that is fixed when a round begins.
//
// Example: gaps {4, -5, 9, 4}: by overload the turns are rank 2, 0, 3.
#pragma once

#include <algorithm>
#include <cstdint>

#include "megaflux/plan/search/search_view.h"

namespace megaflux {

enum class DonorOrder : uint8_t { kOverload, kLargestExpert };

template <class Lanes>
MF_HOST_DEVICE int32_t largest_left(const SearchView<Lanes>& state, int32_t donor) {
  int32_t most = 0;
  const ProblemView& p = state.problem();
  for (int32_t e = p.first_owned[donor]; e < p.first_owned[donor + 1]; ++e) {
    most = std::max(most, state.own_left(e));
  }
  return most;
}

// Fills rank_keys() with the urgency of the ranks above tau, 0 for the others.
template <class Lanes>
MF_HOST_DEVICE void rate_donors(DonorOrder order, const SearchView<Lanes>& state) {
  state.lanes().sync();
  for (int32_t r = state.lanes().first(); r < state.problem().num_ranks; r += Lanes::kCount) {
    int32_t key = std::max(state.gap(r), 0);
    if (key > 0 && order == DonorOrder::kLargestExpert) key = largest_left(state, r);
    state.rank_keys()[r] = key;
  }
  state.lanes().sync();
}

// The most urgent donor whose turn it was not yet, lowest id on ties, -1 if none; its turn is
// noted.
template <class Lanes>
MF_HOST_DEVICE int32_t next_donor(const SearchView<Lanes>& state) {
  typename Lanes::Key best = 0;
  for (int32_t r = state.lanes().first(); r < state.problem().num_ranks; r += Lanes::kCount) {
    best = std::max(best, Lanes::max_key(state.rank_keys()[r], r));
  }
  best = state.lanes().max(best);
  if (Lanes::value_of(best) == 0) return -1;
  state.lanes().sync();
  if (state.lanes().is_writer()) state.rank_keys()[Lanes::id_of_max(best)] = 0;
  state.lanes().sync();
  return Lanes::id_of_max(best);
}

}  // namespace megaflux
