// Residents: the expert that each replica slot holds already, [P, s] row-major, -1 = none; an empty
// table means that nothing is resident.
//
// Example, P = 2, s = 1, residents {-1, 0}: rank 1's slot holds expert 0. A plan with two slots a
// rank sees {-1, -1, 0, -1}.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/moe/plan.h"

namespace megaflux {

// Throws kBadInput unless the table is empty or has P s experts or -1.
void check_residents(const PlanDims& dims, std::span<const int32_t> resident);

// The same residents for `replica_slots` >= s slots a rank: the table itself if they are s, else a
// copy in `memory`.
std::span<const int32_t> widened_residents(const PlanDims& dims, std::span<const int32_t> resident,
                                           int32_t replica_slots, std::vector<int32_t>& memory);

}  // namespace megaflux
