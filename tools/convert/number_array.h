// A dense array of whole numbers, whatever width a file stores them in.
//
// Example: counts of 2 steps, 1 layer and 3 experts, stored as uint16, become shape [2, 1, 3] and
// six values.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "megaflux/trace/npy.h"

namespace megaflux::convert {

// A larger recording fills no trace file; checked before memory is taken.
inline constexpr int64_t kMaxElements = int64_t{1} << 28;

struct NumberArray {
  std::vector<int64_t> shape;
  std::vector<int32_t> values;  // row-major
};

// Throws kBadInput, opening with `where`: floating point or text, more than kMaxElements, a number
// outside 32 bits (naming its position).
NumberArray number_array(const NpyView& view, std::string_view where);

// The number of elements of `shape`; throws kBadInput, opening with `where`, above kMaxElements.
int64_t checked_elements(const std::vector<int64_t>& shape, std::string_view where);

}  // namespace megaflux::convert
