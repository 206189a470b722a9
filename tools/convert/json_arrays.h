// Named arrays of a JSON file, read as a stream: nested lists of whole numbers go straight into
// NumberArrays, and everything else is passed over without being kept. Untrusted input.
//
// Example: {"rank": 0, "logical_count": [[[5, 1], [2, 4]]], "note": "x"} gives "logical_count",
// shape [1, 2, 2]. A list of objects under "records" gives one set of arrays an object. A file that
// is one nested list gives an array named "".
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "convert/number_array.h"

namespace megaflux::convert {

inline constexpr size_t kMaxJsonBytes = size_t{1} << 30;

// A single number is an array of shape [].
using ArraysByName = std::map<std::string, NumberArray, std::less<>>;

struct JsonArrays {
  ArraysByName top;
  std::vector<ArraysByName> records;
};

// Only arrays whose name `is_wanted` are kept. Throws kBadInput, opening with `name`: no JSON, a
// wanted value that is no nested list of whole numbers in 32 bits, lists of different length, more
// than kMaxNpyDims levels, more than kMaxElements numbers in all, a name twice.
JsonArrays parse_json_arrays(std::string_view text, const std::string& name,
                             const std::function<bool(std::string_view)>& is_wanted);

}  // namespace megaflux::convert
