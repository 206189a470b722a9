#include "megaflux/plan/groups.h"

#include <limits>

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

// A value and a rank in one number, so that a plain maximum or minimum finds the extreme value and,
// among equals, the lowest rank. Ranks are below 2^10, values below 2^31.
constexpr int64_t kRankSpan = 1 << 10;
int64_t max_key(int64_t value, int32_t rank) {
  return value * kRankSpan + (kRankSpan - 1 - rank);
}
int32_t rank_of_max(int64_t key) {
  return static_cast<int32_t>(kRankSpan - 1 - key % kRankSpan);
}
int64_t min_key(int64_t value, int32_t rank) {
  return value * kRankSpan + rank;
}
int32_t rank_of_min(int64_t key) {
  return static_cast<int32_t>(key % kRankSpan);
}

// The rank furthest above its capacity, -1 if none is above.
int32_t choose_donor(std::span<const int32_t> gaps) {
  int64_t best = 0;
  for (int32_t r = 0; r < static_cast<int32_t>(gaps.size()); ++r) {
    best = std::max(best, max_key(gaps[r], r));
  }
  return best < kRankSpan ? -1 : rank_of_max(best);
}

// -1 if no rank with a free slot is below its capacity.
int32_t choose_receiver(const SearchState& state, ReceiverRule rule, int32_t excess,
                        std::span<const uint8_t> refused) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t largest = 0, covering = kNone;
  const std::span<const int32_t> gaps = state.gaps();
  for (int32_t r = 0; r < state.problem().num_ranks; ++r) {
    const bool may_host = (state.slots_left(r) != 0) & (refused[r] == 0);
    const int32_t deficit = may_host ? -gaps[r] : 0;
    largest = std::max(largest, max_key(deficit, r));
    covering = std::min(covering, deficit >= excess ? min_key(deficit, r) : kNone);
  }
  if (rule == ReceiverRule::kSmallestCover && covering != kNone) return rank_of_min(covering);
  return largest < kRankSpan ? -1 : rank_of_max(largest);
}

}  // namespace

void search_groups(ReceiverRule rule, int64_t target, SearchState& state) {
  state.start(target);
  std::vector<uint8_t>& refused = state.rank_marks();
  for (;;) {
    const std::span<const int32_t> gaps = state.gaps();
    const int32_t donor = choose_donor(gaps);
    if (donor < 0) return;
    const int32_t excess = gaps[donor];
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
