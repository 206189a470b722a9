// Donors, the ranks above their capacity, take turns in an order that is fixed when a round begins.
//
// Example: gaps {4, -5, 9, 4}: by overload the turns are rank 2, 0, 3.
#pragma once

#include <algorithm>
#include <cstdint>

#include "megaflux/plan/search/search_view.h"

namespace megaflux {

// A rank or an expert, and its excess, deficit or blocks to move.
struct Choice {
  int32_t id = -1;  // -1 = none
  int32_t blocks = 0;
};

enum class DonorOrder : uint8_t { kOverload, kLargestExpert };

template <class Lanes>
MF_HOST_DEVICE int32_t largest_left(const SearchView<Lanes>& state, int32_t donor) {
  int32_t most = 0;
  const ProblemView& p = state.problem();
  MF_UNROLL(8)
  for (int32_t e = p.first_owned[donor]; e < p.first_owned[donor + 1]; ++e) {
    most = std::max(most, state.own_left(e));
  }
  return most;
}

// Fills scratch() with the urgency of the ranks above tau, 0 for the others.
template <class Lanes>
MF_HOST_DEVICE void rate_donors(DonorOrder order, SearchView<Lanes>& state) {
  const int32_t num_own = state.lanes().num_own(state.problem().num_ranks);
  for (int32_t i = 0; i < num_own; ++i) {
    int32_t key = std::max(state.own_gap(i), 0);
    if (key > 0 && order == DonorOrder::kLargestExpert) {
      key = largest_left(state, state.lanes().rank_of(i));
    }
    state.scratch().set_own(i, key);
  }
}

// The most urgent donor whose turn it was not yet, lowest id on ties, -1 if none; its turn is
// noted.
template <class Lanes>
MF_HOST_DEVICE int32_t next_donor(SearchView<Lanes>& state) {
  typename Lanes::Key best = 0;
  const int32_t num_own = state.lanes().num_own(state.problem().num_ranks);
  for (int32_t i = 0; i < num_own; ++i) {
    best = std::max(best, Lanes::max_key(state.scratch().own(i), state.lanes().rank_of(i)));
  }
  best = state.lanes().max(best);
  const auto value = static_cast<int32_t>(Lanes::value_of(best));
  if (value == 0) return -1;
  state.scratch().add(Lanes::id_of_max(best), -value);
  return Lanes::id_of_max(best);
}

}  // namespace megaflux
