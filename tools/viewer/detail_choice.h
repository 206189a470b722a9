// Which cells a report shows in full: rows of every expert, rank and instance.
//
// Example: 10 cells with imbalance_before {1, 2, 3, ..., 10}, imbalance_after all 1, three details:
// the worst is cell 9, nearest to the median 5 is cell 4, and every 10th adds cell 0. The text says
// "worst 1, around the median 1, every 10th 1; 3 of 10 cells".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace megaflux::viewer {

// Why a cell was chosen; several bits may be set.
enum DetailReason : uint8_t {
  kDetailWorst = 1,
  kDetailMedian = 2,
  kDetailEveryNth = 4,
  kDetailAsked = 8,
};

struct DetailChoice {
  std::vector<uint32_t> cells;  // ascending
  std::vector<uint8_t> why;     // of each, DetailReason bits
  std::string text;             // exactly what was chosen, for people
};

// At most `most` cells and the asked ones. A third of them are the worst: half of that by the
// imbalance after planning, half by the one before, the lower cell where two are equal. A third lie
// around the median of the imbalance before. Every n-th cell fills up the rest. All cells if there
// are no more than `most`.
DetailChoice choose_details(std::span<const float> imbalance_before,
                            std::span<const float> imbalance_after, int64_t most,
                            std::span<const uint32_t> asked);

}  // namespace megaflux::viewer
