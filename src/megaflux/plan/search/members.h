// The members of the portfolio: which searches there are, and how each is run. Host and device walk
// the same table (docs/decisions/0004-portfolio-members.md says why these).
//
// Members by id: [0, 14) groups, two receiver rules for each target; [14, 18) the paper's four;
// then 14 that depend on the objective. Where copies have a price: groups with wide targets.
// Forward, if none of the 18 reached what is accepted: groups that take the largest experts first,
// at targets that divide the way from tau to the best of the 18 into 15 parts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "megaflux/plan/search/groups.h"
#include "megaflux/plan/search/paper.h"
#include "megaflux/plan/search/refine.h"

namespace megaflux {

inline constexpr int32_t kNumTargets = 7;
inline constexpr int32_t kFirstPaper = 2 * kNumTargets;
inline constexpr int32_t kFirstSecond = kFirstPaper + 4;
inline constexpr int32_t kNumMembers = kFirstSecond + 2 * kNumTargets;

struct MemberRange {
  int32_t begin = 0;
  int32_t end = 0;
};

// The members that need to know nothing of the others.
MF_HOST_DEVICE constexpr MemberRange first_wave(bool is_paper, bool is_forward) {
  if (is_paper) return {kFirstPaper, kFirstSecond};
  return {0, is_forward ? kFirstSecond : kNumMembers};
}

// T = ceil(tau (1 + x)) of the groups searches, x in millionths: 0, 2500, 5000, ... 80000. Where
// copies have a price (lambda, predicted time) and a rank has few blocks, it pays to lower the
// worst ranks only: the wide targets.
MF_HOST_DEVICE constexpr int32_t target_ppm(int32_t member) {
  if (member < kFirstPaper) return member < 2 ? 0 : 1'250 << (member / 2);
  // No table: a kernel would keep it in local memory.
  switch ((member - kFirstSecond) / 2) {
    case 0:
      return 160'000;
    case 1:
      return 250'000;
    case 2:
      return 360'000;
    case 3:
      return 500'000;
    case 4:
      return 750'000;
    case 5:
      return 1'000'000;
    default:
      return 2'000'000;
  }
}

// The target of a member of the second wave: `part` of 15 of the way from tau to `best`; -1 if
// another member has it already.
MF_HOST_DEVICE constexpr int64_t target_between(int64_t tau, int64_t best, int32_t member) {
  constexpr int32_t kParts = kNumMembers - kFirstSecond + 1;
  const int32_t part = member - kFirstSecond + 1;
  const int64_t way = (best - tau) * part / kParts;
  return way == (best - tau) * (part - 1) / kParts ? -1 : tau + way;
}

// How a member searches.
struct MemberSearch {
  bool is_paper = false;
  DonorOrder order = DonorOrder::kOverload;  // paper
  CopiesPerRound copies = CopiesPerRound::kOne;
  DonorRule donors = DonorRule::kLargestExcess;  // groups
  ReceiverRule receivers = ReceiverRule::kLargestDeficit;
  int64_t target = 0;
};

// A member of the first wave.
MF_HOST_DEVICE constexpr MemberSearch member_search(int32_t member, int64_t tau) {
  MemberSearch search;
  search.is_paper = member >= kFirstPaper && member < kFirstSecond;
  if (search.is_paper) {
    const int32_t variant = member - kFirstPaper;
    search.order = variant < 2 ? DonorOrder::kOverload : DonorOrder::kLargestExpert;
    search.copies = variant % 2 == 0 ? CopiesPerRound::kOne : CopiesPerRound::kSeveral;
  } else {
    if (member % 2 != 0) search.receivers = ReceiverRule::kSmallestCover;
    search.target = scaled_up(tau, target_ppm(member));
  }
  return search;
}

// A member of the second wave: slots are short, so what matters is how many blocks each of them
// carries, and a target that can be met exactly. Target -1: another member has it already.
MF_HOST_DEVICE constexpr MemberSearch second_search(int32_t member, int64_t tau, int64_t best) {
  MemberSearch search;
  search.donors = DonorRule::kLargestExpert;
  search.target = target_between(tau, best, member);
  return search;
}

// Runs a search, then drops replicas it can do without and levels the extremes.
template <class Lanes>
MF_HOST_DEVICE void run_member(const MemberSearch& search, SearchView<Lanes>& state) {
  if (search.is_paper) {
    search_paper(search.order, search.copies, state);
  } else {
    search_groups(search.donors, search.receivers, search.target, state);
  }
  trim(std::max(state.problem().accepted, max_finish(state)), state);
  level(state);
}

}  // namespace megaflux
