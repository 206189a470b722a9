// The members of the portfolio: which searches there are, and how each is run. Host and device walk
// the same table (docs/decisions/0012-portfolio-for-a-device.md says why these).
//
// Members by id: [0, 14) groups; [14, 18) the paper's four; [18, 32) groups again. With the
// backward objective all of them search, the last with wide targets. With the others the first 14
// search, and the other 18 if there is something left to gain: forward, if none of the 14 reached
// what is accepted, and the last then take the largest experts first, at targets that divide the
// way from tau to the best of the 14 into 15 parts; with costs, if more than their time could be
// gained.
#pragma once

#include <algorithm>
#include <cstdint>

#include "megaflux/plan/search/groups.h"
#include "megaflux/plan/search/paper.h"
#include "megaflux/plan/search/refine.h"

namespace megaflux {

inline constexpr int32_t kFirstByExpert = 6;  // donors by their largest expert
inline constexpr int32_t kFirstPaper = 14;
inline constexpr int32_t kFirstSecond = 18;
inline constexpr int32_t kNumMembers = 32;

struct MemberRange {
  int32_t begin = 0;
  int32_t end = 0;
};

// The members that need to know nothing of the others. The paper's are the longest searches.
MF_HOST_DEVICE constexpr MemberRange first_wave(bool is_paper, bool is_backward) {
  if (is_paper) return {kFirstPaper, kFirstSecond};
  return {0, is_backward ? kNumMembers : kFirstPaper};
}

// The members that search if the first wave has left something to gain.
inline constexpr MemberRange kSecondWave = {kFirstPaper, kNumMembers};

// By how many percent the target of a groups search is above tau. Where copies have a price
// (lambda, predicted time) and a rank has few blocks, it pays to lower the worst ranks only: the
// wide targets. Numbers, not tables, which a kernel would keep in local memory.
MF_HOST_DEVICE constexpr int32_t percent_above(int32_t member) {
  constexpr uint64_t kNear = 0x86'4211'0042'1100;     // a hex digit each, lowest first
  constexpr uint64_t kWide = 0xc8'64'32'24'19'10'08;  // 8, 16, 25, 36, 50, 100, 200
  if (member < kFirstPaper) return static_cast<int32_t>(kNear >> (4 * member) & 0xf);
  return static_cast<int32_t>(kWide >> (8 * ((member - kFirstSecond) / 2)) & 0xff);
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
  int32_t most_late = INT32_MAX;  // ranks after what is accepted with which it is worth levelling
};

// A member whose target needs tau alone. Forward, a plan of the first wave that is far from
// what is accepted is given up: others are there, and if none of them is, the second wave follows.
MF_HOST_DEVICE constexpr MemberSearch search_near_tau(int32_t member, int64_t tau,
                                                      bool is_forward) {
  MemberSearch search;
  search.is_paper = member >= kFirstPaper && member < kFirstSecond;
  if (search.is_paper) {
    const int32_t variant = member - kFirstPaper;
    search.order = variant < 2 ? DonorOrder::kOverload : DonorOrder::kLargestExpert;
    search.copies = variant % 2 == 0 ? CopiesPerRound::kOne : CopiesPerRound::kSeveral;
    return search;
  }
  const int32_t percent = percent_above(member);
  const bool is_wide = member >= kFirstSecond;
  if (is_forward) search.most_late = 2;
  search.target = tau + ceil_div(tau * percent, int64_t{100});
  if (member >= kFirstByExpert && !is_wide) search.donors = DonorRule::kLargestExpert;
  if (member % 2 != 0 && (percent <= 1 || is_wide)) search.receivers = ReceiverRule::kSmallestCover;
  return search;
}

// How a member searches. The last members of a forward plan are run where slots are short: what
// matters is how many blocks each of them carries, and a target that can be met exactly. They alone
// read `best`, the objective of the first wave. Target -1: another member has it already.
MF_HOST_DEVICE constexpr MemberSearch member_search(int32_t member, int64_t tau, int64_t best,
                                                    bool is_forward) {
  if (member < kFirstSecond || !is_forward) return search_near_tau(member, tau, is_forward);
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
  if (num_late(state) <= search.most_late) level(state);
}

}  // namespace megaflux
