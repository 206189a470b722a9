#include "cli/load_bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "cli/text_format.h"

namespace megaflux::cli {
namespace {

constexpr size_t kMaxShownRanks = 16;
constexpr int kBarColumns = 26;

// Ranks to show: all, or those that were loaded most and least before.
std::vector<size_t> shown_ranks(std::span<const int64_t> before) {
  std::vector<size_t> ranks(before.size());
  std::iota(ranks.begin(), ranks.end(), size_t{0});
  if (ranks.size() <= kMaxShownRanks) return ranks;
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](size_t a, size_t b) { return before[a] > before[b]; });
  ranks.erase(ranks.begin() + kMaxShownRanks / 2,
              ranks.end() - static_cast<std::ptrdiff_t>(kMaxShownRanks / 2));
  return ranks;
}

std::string column(const TextStyle& style, int64_t load, int64_t largest, Colour colour) {
  const double fraction =
      largest > 0 ? static_cast<double>(load) / static_cast<double>(largest) : 0;
  return fmt::format("{}{:>10}", paint(style, colour, bar(style, fraction, kBarColumns)),
                     count_text(load));
}

}  // namespace

void print_load_bars(const TextStyle& style, const LoadBars& bars) {
  int64_t largest = 0;
  for (const auto& loads : {bars.before, bars.after}) {
    for (const int64_t load : loads) largest = std::max(largest, load);
  }
  const std::string header =
      fmt::format("{:<6}{:<{}}   {}", "rank", "fixed placement, " + bars.unit, kBarColumns + 10,
                  "dynamic replication, " + bars.unit);
  fmt::print("{}\n", paint(style, Colour::kDim, header));
  const std::vector<size_t> ranks = shown_ranks(bars.before);
  for (size_t i = 0; i < ranks.size(); ++i) {
    const size_t rank = ranks[i];
    fmt::print("{:>4}  {}   {}\n", rank, column(style, bars.before[rank], largest, Colour::kYellow),
               column(style, bars.after[rank], largest, Colour::kGreen));
    if (ranks.size() < bars.before.size() && i + 1 == ranks.size() / 2) {
      fmt::print("{:>4}\n", style.has_unicode ? "⋮" : "...");
    }
  }
}

}  // namespace megaflux::cli
