#include "megaflux/plan/groups.h"

namespace megaflux {
namespace {

struct Move {
  int32_t expert = -1;  // -1 = none
  int32_t blocks = 0;
};

// The expert that fills `deficit` of `receiver` from `donor`'s own share: one that needs no copy,
// else the smallest that covers the deficit, else the largest.
Move choose_expert(const SearchState& state, int32_t donor, int32_t receiver, int32_t deficit) {
  const DomainProblem& p = state.problem();
  int32_t covering = -1, largest = -1, present = -1;
  for (int32_t e = p.first_owned[donor]; e < p.first_owned[donor + 1]; ++e) {
    const int32_t left = state.own_left(e);
    if (left == 0 || state.holds(e, receiver)) continue;
    if (std::min(left, deficit) < state.least_to_open(e, receiver)) continue;
    if (left >= deficit) {
      if (covering < 0 || left < state.own_left(covering)) covering = e;
      if (present < 0 && p.is_resident(e, receiver)) present = e;
    }
    if (largest < 0 || left > state.own_left(largest)) largest = e;
  }
  if (present >= 0) return {present, deficit};
  if (covering >= 0) return {covering, deficit};
  return {largest, largest < 0 ? 0 : state.own_left(largest)};
}

// Lowest id on ties; -1 if no rank with a free slot is below its capacity.
int32_t choose_receiver(const SearchState& state, ReceiverRule rule, int32_t excess,
                        std::span<const uint8_t> refused) {
  int32_t largest = -1, covering = -1;
  const std::span<const int32_t> gaps = state.gaps();
  for (int32_t r = 0; r < state.problem().num_ranks; ++r) {
    if (gaps[r] >= 0 || state.slots_left(r) == 0 || refused[r] != 0) continue;
    if (largest < 0 || gaps[r] < gaps[largest]) largest = r;
    if (-gaps[r] >= excess && (covering < 0 || gaps[r] > gaps[covering])) covering = r;
  }
  return rule == ReceiverRule::kSmallestCover && covering >= 0 ? covering : largest;
}

}  // namespace

void search_groups(ReceiverRule rule, int64_t target, SearchState& state) {
  state.start(target);
  std::vector<uint8_t>& refused = state.rank_marks();
  for (;;) {
    const std::span<const int32_t> gaps = state.gaps();
    const int32_t donor =
        static_cast<int32_t>(std::max_element(gaps.begin(), gaps.end()) - gaps.begin());
    const int32_t excess = gaps[donor];
    if (excess <= 0) return;
    std::fill(refused.begin(), refused.end(), uint8_t{0});
    for (;;) {
      const int32_t receiver = choose_receiver(state, rule, excess, refused);
      if (receiver < 0) return;
      const Move move = choose_expert(state, donor, receiver, -gaps[receiver]);
      if (move.expert >= 0) {
        state.open(move.expert, receiver, move.blocks);
        break;
      }
      refused[receiver] = 1;  // it holds, or is too small for, everything this donor has
    }
  }
}

}  // namespace megaflux
