// The quota search: every rank above a threshold exports down to exactly that; donors by load
// descending, their experts by rows descending, each time to the rank with most room that has a
// free slot and does not hold the expert. The owner keeps at least one row. The threshold is the
// first feasible one of tau0, tau0 + d, tau0 + 2d, ..., then bisected inside the last step;
// feasibility is not monotone, so a wider bisection could miss it.
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
  const int32_t num_own = state.lanes().num_own(p.num_ranks);
  for (int32_t i = 0; i < num_own; ++i) {
    const int32_t r = state.lanes().rank_of(i);
    const int32_t room = -state.own_gap(i);
    if (room <= static_cast<int64_t>(Lanes::value_of(best))) continue;
    if (state.own_slots(i) == 0 || state.holds(expert, r)) continue;
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
  MF_UNROLL(1)
  for (int32_t e = p.first_owned[donor]; e < p.first_owned[donor + 1]; ++e) {
    MF_UNROLL(1)
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
  MF_UNROLL(1)
  for (int32_t donor = next_donor(state); donor >= 0; donor = next_donor(state)) {
    if (!quota::export_excess(donor, state)) return false;
  }
  return true;
}

namespace quota {

// ceil(mean (1 + slack)), the mean taken over what all ranks have to do and their speeds, and no
// less than tau.
MF_HOST_DEVICE inline int64_t first_threshold(const ProblemView& problem, int32_t slack_ppm) {
  int64_t work = problem.total_blocks, speed = 0;
  MF_UNROLL(1)
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    work += problem.base[r];
    speed += problem.speed[r];
  }
  const int64_t mean = ceil_div(scaled_up(work, slack_ppm) * 1024, speed);
  return mean > problem.tau ? mean : problem.tau;
}

// No threshold below this is feasible, since
//  - an owner keeps a row of each expert and pays lambda for each that has replicas, and those are
//    at most as many as the slots of the other ranks;
//  - unless nobody exports, some rank must have room for the smallest replica that pays. Room never
//    grows while donors export, since none falls below the threshold.
// `most` is the largest finish of fixed placement.
template <class Lanes>
MF_HOST_DEVICE int64_t least_possible(const SearchView<Lanes>& state, int64_t most) {
  const ProblemView& p = state.problem();
  const int64_t lambda = p.lambda_blocks;
  const int64_t others_slots = int64_t{p.replica_slots} * (p.num_ranks - 1);
  using Key = typename Lanes::Key;
  Key after_export = 0, smallest = Lanes::kNoKey, first_room = Lanes::kNoKey;
  MF_UNROLL(1)
  for (int32_t r = state.lanes().first(); r < p.num_ranks; r += Lanes::kCount) {
    int64_t kept = p.fixed_load[r], replicated = 0;
    MF_UNROLL(1)
    for (int32_t e = p.first_owned[r]; e < p.first_owned[r + 1]; ++e) {
      const int64_t needed = std::max<int64_t>(p.least_present[e], lambda + 1);
      if (p.blocks[e] <= needed || replicated == others_slots) continue;
      ++replicated;  // experts stand in descending size, so these save most
      kept -= p.blocks[e] - 1 - lambda;
      smallest = std::min(smallest, static_cast<Key>(needed));
    }
    after_export =
        std::max(after_export, static_cast<Key>(p.finish(r, static_cast<int32_t>(kept))));
  }
  after_export = state.lanes().max(after_export);
  smallest = state.lanes().min(smallest);
  MF_UNROLL(1)
  for (int32_t r = state.lanes().first(); r < p.num_ranks; r += Lanes::kCount) {
    if (smallest > p.total_blocks - p.fixed_load[r]) continue;
    const auto load = static_cast<int32_t>(p.fixed_load[r] + smallest);
    first_room = std::min(first_room, static_cast<Key>(p.finish(r, load)));
  }
  first_room = state.lanes().min(first_room);
  return std::max<int64_t>(after_export, std::min<int64_t>(first_room, most));
}

// The next threshold on the grid at which some rank's capacity is larger. Those in between would
// repeat the search: beside a rank of speed 65535, one of speed 1 takes another row every 1024.
template <class Lanes>
MF_HOST_DEVICE int64_t next_threshold(int64_t threshold, int64_t step, int64_t most,
                                      const SearchView<Lanes>& state) {
  const ProblemView& p = state.problem();
  auto changed = static_cast<typename Lanes::Key>(most);
  MF_UNROLL(1)
  for (int32_t r = state.lanes().first(); r < p.num_ranks; r += Lanes::kCount) {
    const int32_t capacity = p.capacity(r, threshold);
    if (capacity < p.total_blocks) {
      changed = std::min(changed, static_cast<typename Lanes::Key>(p.finish(r, capacity + 1)));
    }
  }
  changed = state.lanes().min(changed);
  const int64_t steps = std::max<int64_t>(1, ceil_div<int64_t>(changed - threshold, step));
  return std::min(threshold + steps * step, most);
}

}  // namespace quota

// Finds the threshold and leaves its plan in `state`. `most` is the largest finish of fixed
// placement, which is feasible: nobody exports.
template <class Lanes>
MF_HOST_DEVICE void search_quota(int32_t slack_ppm, int64_t most, SearchView<Lanes>& state) {
  const int64_t first = std::min(quota::first_threshold(state.problem(), slack_ppm), most);
  const int64_t step = std::max<int64_t>(1, first / 1000);
  // Steps that cannot be feasible are skipped, not tried.
  const int64_t missing = quota::least_possible(state, most) - first;
  const int64_t skipped = ceil_div(std::max<int64_t>(0, missing), step);
  int64_t feasible = std::min(first + skipped * step, most);
  MF_UNROLL(1)
  while (!is_quota_feasible(feasible, state)) {
    feasible = quota::next_threshold(feasible, step, most, state);
  }
  int64_t refused = std::max(first - 1, feasible - step);
  MF_UNROLL(1)
  while (feasible - refused > 1) {
    const int64_t middle = refused + (feasible - refused) / 2;
    (is_quota_feasible(middle, state) ? feasible : refused) = middle;
  }
  is_quota_feasible(feasible, state);
}

}  // namespace megaflux
