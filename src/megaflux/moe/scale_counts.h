// Scaling expert counts to another number of rows, by largest remainder.
//
// Example: counts {6, 3, 1} to 20 rows, at most 10 each: shares {12, 6, 2}; expert 0 is held at 10,
// and the other two share the remaining 10 rows as {7.5, 2.5} = {8, 2} (equal remainders: the lower
// expert wins).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace megaflux {

// Non-negative counts, [E], summing to `total`, each at most `limit`, in proportion to `counts`
// except where the limit holds one back. Returns `counts` itself if they fit already. Throws
// kBadInput if `total` is negative, 2^31 or more, or more than the experts with rows can take.
std::vector<int32_t> scale_counts(std::span<const int32_t> counts, int64_t total, int64_t limit);

}  // namespace megaflux
