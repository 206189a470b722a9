#include "megaflux/plan/paper.h"

namespace megaflux {
namespace {

// The lightest rank below its capacity among those `admit` accepts, lowest id on ties, -1 if none.
template <typename Admit>
int32_t lightest(const SearchState& state, Admit admit) {
  int32_t best = -1;
  const std::span<const int32_t> gaps = state.gaps();
  for (int32_t r = 0; r < state.problem().num_ranks; ++r) {
    if (gaps[r] < 0 && (best < 0 || gaps[r] < gaps[best]) && admit(r)) best = r;
  }
  return best;
}

// The replica of `expert` on the lightest rank below its capacity, -1 if none.
int32_t lightest_replica(const SearchState& state, int32_t expert) {
  int32_t best = -1;
  for (int32_t i = state.first_replica(expert); i >= 0; i = state.replicas()[i].next) {
    const int32_t rank = state.replicas()[i].rank;
    if (state.gap(rank) >= 0) continue;
    if (best >= 0) {
      const int32_t other = state.replicas()[best].rank;
      if (state.gap(rank) > state.gap(other)) continue;
      if (state.gap(rank) == state.gap(other) && rank > other) continue;
    }
    best = i;
  }
  return best;
}

// Gives blocks of one expert away while its owner is above tau; returns whether anything moved.
bool spread_expert(CopiesPerRound copies, int32_t expert, SearchState& state) {
  const DomainProblem& p = state.problem();
  const int32_t donor = p.owner[expert];
  const auto needs = [&] { return state.gap(donor) > 0 && state.own_left(expert) > 0; };
  const auto amount = [&](int32_t receiver) {
    return std::min(state.own_left(expert), -state.gap(receiver));
  };
  const auto can_open = [&](int32_t r) {
    return state.can_open(expert, r) && amount(r) >= state.least_to_open(expert, r);
  };
  bool moved = false;
  while (needs()) {
    const int32_t i = lightest_replica(state, expert);
    if (i < 0) break;
    state.add(i, amount(state.replicas()[i].rank));
    moved = true;
  }
  while (p.has_resident && needs()) {
    const int32_t r = lightest(
        state, [&](int32_t rank) { return p.is_resident(expert, rank) && can_open(rank); });
    if (r < 0) break;
    state.open(expert, r, amount(r));
    moved = true;
  }
  while (needs()) {
    const int32_t r = lightest(state, can_open);
    if (r < 0) break;
    state.open(expert, r, amount(r));
    moved = true;
    if (copies == CopiesPerRound::kOne) break;
  }
  return moved;
}

int32_t largest_left(const SearchState& state, int32_t donor) {
  int32_t most = 0;
  const DomainProblem& p = state.problem();
  for (int32_t e = p.first_owned[donor]; e < p.first_owned[donor + 1]; ++e) {
    most = std::max(most, state.own_left(e));
  }
  return most;
}

// Fills rank_order() with the ranks above tau, most urgent first, lowest id on ties.
void order_donors(DonorOrder order, SearchState& state) {
  std::vector<int32_t>& donors = state.rank_order();
  std::vector<int32_t>& keys = state.rank_keys();
  donors.clear();
  for (int32_t r = 0; r < state.problem().num_ranks; ++r) {
    if (state.gap(r) <= 0) continue;
    keys[r] = order == DonorOrder::kOverload ? state.gap(r) : largest_left(state, r);
    size_t i = donors.size();
    donors.push_back(r);
    for (; i > 0 && keys[donors[i - 1]] < keys[r]; --i) donors[i] = donors[i - 1];
    donors[i] = r;
  }
}

// One donor's turn: its experts, largest first, each once, until it is no longer above tau.
bool donate(CopiesPerRound copies, int32_t donor, SearchState& state) {
  const DomainProblem& p = state.problem();
  bool moved = false;
  for (int32_t e = p.first_owned[donor]; e < p.first_owned[donor + 1] && state.gap(donor) > 0;
       ++e) {
    moved |= spread_expert(copies, e, state);
  }
  return moved;
}

}  // namespace

void search_paper(DonorOrder order, CopiesPerRound copies, SearchState& state) {
  const DomainProblem& p = state.problem();
  state.start(p.tau);
  const int32_t max_rounds = p.replica_slots * p.num_ranks + 2;
  for (int32_t round = 0; round < max_rounds; ++round) {
    order_donors(order, state);
    bool moved = false;
    for (const int32_t donor : state.rank_order()) moved |= donate(copies, donor, state);
    if (!moved) return;
  }
}

}  // namespace megaflux
