// The quota search: every rank above a threshold exports down to exactly that; donors by load
// descending, their experts by rows descending, each time to the rank with most room that has a
// free slot and does not hold the expert. The owner keeps at least one row.
//
// Example: four ranks with one expert each, rows {65536, 0, 0, 0}, one slot, threshold 16548: rank
// 0 exports 48,988 rows: 16,548 to rank 1, 16,548 to rank 2, 15,892 to rank 3.
#pragma once

#include <algorithm>
#include <cstdint>

#include "megaflux/plan/search/donor_turns.h"
#include "megaflux/plan/search/search_view.h"

namespace megaflux {

namespace quota {

// The rank with most room among those that may take rows of `expert`, lowest id on ties, or -1.
template <class Lanes>
MF_HOST_DEVICE int32_t choose_target(const SearchView<Lanes>& state, int32_t expert,
                                     int32_t available) {
  const ProblemView& p = state.problem();
  // A new replica also has to carry the lambda that it costs its owner.
  const int64_t need = int64_t{state.gap(p.owner[expert])} + p.lambda_blocks;
  typename Lanes::Key best = 0;
  for (int32_t r = state.lanes().first(); r < p.num_ranks; r += Lanes::kCount) {
    const int32_t room = -state.gap(r);
    if (room <= static_cast<int64_t>(Lanes::value_of(best)) || !state.can_open(expert, r)) continue;
    const int64_t rows = std::min<int64_t>(need, std::min(room, available));
    if (rows >= state.least_to_open(expert, r)) best = Lanes::max_key(room, r);
  }
  best = state.lanes().max(best);
  return Lanes::value_of(best) == 0 ? -1 : Lanes::id_of_max(best);
}

// Brings `donor` down to the threshold; false if that is not possible.
template <class Lanes>
MF_HOST_DEVICE bool export_excess(int32_t donor, SearchView<Lanes>& state) {
  const ProblemView& p = state.problem();
  for (int32_t e = p.first_owned[donor]; e < p.first_owned[donor + 1]; ++e) {
    while (state.gap(donor) > 0 && state.own_left(e) > 1) {
      const int32_t available = state.own_left(e) - 1;
      const int32_t target = choose_target(state, e, available);
      if (target < 0) break;
      const int64_t need = int64_t{state.gap(donor)} + p.lambda_blocks;
      const int64_t rows = std::min<int64_t>(need, std::min(-state.gap(target), available));
      state.open(e, target, static_cast<int32_t>(rows));
    }
    if (state.gap(donor) <= 0) return true;
  }
  return false;
}

}  // namespace quota

// Whether all donors can be brought down to `threshold`; the state is then that plan.
template <class Lanes>
MF_HOST_DEVICE bool is_quota_feasible(int64_t threshold, SearchView<Lanes>& state) {
  state.start(threshold);
  rate_donors(DonorOrder::kOverload, state);
  for (int32_t donor = next_donor(state); donor >= 0; donor = next_donor(state)) {
    if (!quota::export_excess(donor, state)) return false;
  }
  return true;
}

}  // namespace megaflux
