// Load per rank, before and after, as two columns of bars on one scale.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cli/terminal.h"

namespace megaflux::cli {

struct LoadBars {
  std::string unit;                 // "rows"
  std::span<const int64_t> before;  // [P]
  std::span<const int64_t> after;   // [P]
};

// At most 16 ranks are shown one by one; of more, the most and the least loaded.
void print_load_bars(const TextStyle& style, const LoadBars& bars);

}  // namespace megaflux::cli
