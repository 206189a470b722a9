// Loads as comma-separated whole numbers, the input of `megaflux plan LOADS`.
//
// Example: the line "600,560,120,120,20,10,10,10" are totals of E = 8 experts without sources; two
// lines of three numbers are rows of P = 2 source ranks over E = 3 experts. Blank lines and lines
// that start with # are left out; blanks around a number, a comma at the end of a line, Windows
// line ends and a byte order mark are accepted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "megaflux/moe/load_table.h"

namespace megaflux {

inline constexpr size_t kMaxCsvBytes = size_t{64} << 20;
inline constexpr size_t kMaxCsvColumns = 4096;
inline constexpr size_t kMaxCsvLines = 1024;  // with numbers

// Rows of equal length, at least one. Throws kBadInput naming file, line (from 1) and column
// (number of the value in its line, from 1): no whole number, one below 0 or over 2^31 - 1, lines
// of different length, no number.
std::vector<std::vector<int64_t>> parse_csv(std::string_view text, std::string_view file_name);
std::vector<std::vector<int64_t>> read_csv(const std::string& path);

// One line: totals, split evenly over `num_ranks` (has_sources() is false unless there is but one
// rank). `num_ranks` lines: one a source rank. Any other number of lines throws kBadInput naming
// both numbers.
LoadTable parse_load_csv(std::string_view text, std::string_view file_name, int32_t num_ranks);
LoadTable read_load_csv(const std::string& path, int32_t num_ranks);

}  // namespace megaflux
