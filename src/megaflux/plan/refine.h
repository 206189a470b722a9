// What follows a search: fewer replicas at the same maximum, and a lower maximum with the same
// replicas.
#pragma once

#include <cstdint>

#include "megaflux/plan/search_state.h"

namespace megaflux {

// The largest finish time, lambda included.
int64_t max_finish(const SearchState& state);

// Drops replicas whose blocks fit into the other instances of their expert without any rank passing
// `limit`; the latest replica first. Example: loads {9, 10, 7}, limit 10, expert 3 with 4 blocks on
// its owner 0, 1 on rank 1 and 2 on rank 2: rank 0 takes the single block of rank 1, whose slot is
// free again.
void trim(int64_t limit, SearchState& state);

// Moves blocks from the rank that finishes last to ranks that share one of its experts and finish
// earlier, until its finish time cannot fall that way.
void level(SearchState& state);

// Reroutes a -> m -> x into a -> x where rank m hosts an expert of a and gives away as many blocks
// of its own to x: loads stay, moved blocks fall, and a replica whose blocks all came that way is
// gone. Example: ranks {1: hosts 1 block of expert 0; its own expert 2 has 3 blocks on rank 2}:
// rank 2 hosts expert 0's block and 2 blocks of expert 2.
void shorten(SearchState& state);

}  // namespace megaflux
