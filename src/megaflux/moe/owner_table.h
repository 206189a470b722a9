// Owner tables: which rank holds expert e for good.
//
// Example: E = 10 experts on P = 4 ranks, contiguous: {0,0,0, 1,1,1, 2,2, 3,3}; the first E mod P
// ranks get one expert more, and a rank may own none (E = 7, P = 8: rank 7).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace megaflux {

// The default owner table, [E].
std::vector<int32_t> contiguous_owners(int32_t num_experts, int32_t num_ranks);

// Both throw kBadInput naming expert, owner and limit if an owner is outside [0, num_ranks).
//
// Local position of every expert among its owner's experts, in ascending expert id, [E].
std::vector<int32_t> local_index_of(std::span<const int32_t> owner_of, int32_t num_ranks);

// Number of experts each rank owns, [P].
std::vector<int32_t> owned_experts(std::span<const int32_t> owner_of, int32_t num_ranks);

}  // namespace megaflux
