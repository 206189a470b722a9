// EPLB's rule, looked at from outside: which expert gets the next copy.
//
// Example, weights {6, 2, 1} and one spare place: expert 0 gets a second copy, since its 6 rows a
// copy are the most. Its copies then count 3 rows each; the least share that got a copy is 6.
#pragma once

#include <optional>

#include "explain/reasons.h"

namespace megaflux::explain {

// Nullopt unless the planner is eplb, places globally and knows the expert.
std::optional<CopyRule> copy_rule_of(const StepFacts& facts, int32_t expert);

}  // namespace megaflux::explain
