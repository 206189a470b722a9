// Numbers as people read them, and text from outside as a terminal may take it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace megaflux::cli {

// 1234567 -> "1,234,567".
std::string count_text(int64_t count);
// 1 -> "1 replica", 3 -> "3 replicas".
std::string plural(int64_t count, const std::string& noun);
// 17301504 -> "17.3 MB" (powers of 1000).
std::string bytes_text(uint64_t bytes);
// 0.0123 -> "12.3 ms".
std::string seconds_text(double seconds);
// Names of files, models and values come from outside; a terminal must not act on what is in them.
// Control characters, those of Latin-1 in UTF-8 too, become \x1b and the like.
std::string printable(std::string_view text);

}  // namespace megaflux::cli
