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

#include <cstdint>

#include "megaflux/plan/search_state.h"

namespace megaflux {

enum class ReceiverRule : uint8_t {
  kLargestDeficit,
  kSmallestCover,  // the smallest deficit that covers the donor's excess, else the largest
};

// Runs one search from fixed placement to its end: no rank above the target, or no legal move left.
void search_groups(ReceiverRule rule, int64_t target, SearchState& state);

}  // namespace megaflux
