// The four greedy searches of the paper. In each of at most s P + 2 rounds the donors, ranks above
// tau, take turns; a donor gives blocks of its owned experts, largest first. A move takes min(what
// the owner has left, what the receiver lacks to tau), so a donor may fall below tau and receive
// later. Receivers that hold the expert come first (active replicas, then resident copies: neither
// needs a transfer), then fresh slots; the lightest rank first.
//
// Example: blocks {9, 5, 7, 3, 3, 2, 2, 1}, 4 ranks with two experts each, loads {14, 10, 5, 3},
// tau 8.
//   Rank 0, expert 0: 5 blocks to rank 3, then expert 1: 3 blocks to rank 2 (rank 0 now lacks 2);
//   rank 1, expert 2: 2 blocks to rank 0. Loads {8, 8, 8, 8}, 3 replicas, 10 blocks moved.
#pragma once

#include <cstdint>

#include "megaflux/plan/search_state.h"

namespace megaflux {

enum class DonorOrder : uint8_t { kOverload, kLargestExpert };
enum class CopiesPerRound : uint8_t { kOne, kSeveral };  // new copies per expert and round

// Runs one search from fixed placement to its end; trimming and levelling follow in refine.h.
void search_paper(DonorOrder order, CopiesPerRound copies, SearchState& state);

}  // namespace megaflux
