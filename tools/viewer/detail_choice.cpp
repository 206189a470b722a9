#include "viewer/detail_choice.h"

#include <algorithm>
#include <numeric>

#include "megaflux/base/math.h"

namespace megaflux::viewer {
namespace {

// 1234567 -> "1,234,567".
std::string grouped(int64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

// 2 -> "every 2nd", 11 -> "every 11th".
std::string every_nth(int64_t n) {
  const bool is_teen = n % 100 >= 11 && n % 100 <= 13;
  const char* ending = is_teen       ? "th"
                       : n % 10 == 1 ? "st"
                       : n % 10 == 2 ? "nd"
                       : n % 10 == 3 ? "rd"
                                     : "th";
  return std::string("every ").append(grouped(n)).append(ending);
}

class Chooser {
 public:
  explicit Chooser(int64_t num_cells) : why_(num_cells, 0) {}

  // Adds reason to the cells in their order until `count` more have been chosen.
  int64_t take(std::span<const uint32_t> cells, int64_t count, DetailReason reason) {
    int64_t taken = 0;
    for (const uint32_t cell : cells) {
      if (taken == count) break;
      taken += why_[cell] == 0;
      why_[cell] |= reason;
    }
    return taken;
  }

  DetailChoice result() const {
    DetailChoice choice;
    for (size_t cell = 0; cell < why_.size(); ++cell) {
      if (why_[cell] == 0) continue;
      choice.cells.push_back(static_cast<uint32_t>(cell));
      choice.why.push_back(why_[cell]);
    }
    return choice;
  }

 private:
  std::vector<uint8_t> why_;
};

using CellOrder = std::vector<uint32_t>;

// By falling value, the lower cell first where two are equal.
CellOrder falling(std::span<const float> values) {
  CellOrder cells(values.size());
  std::iota(cells.begin(), cells.end(), 0u);
  std::sort(cells.begin(), cells.end(), [&](uint32_t a, uint32_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  });
  return cells;
}

// From the middle of a falling order outwards.
CellOrder outwards(const CellOrder& cells) {
  CellOrder order;
  order.reserve(cells.size());
  auto low = static_cast<int64_t>(cells.size() / 2);
  int64_t high = low + 1;
  while (low >= 0 || high < static_cast<int64_t>(cells.size())) {
    if (low >= 0) order.push_back(cells[low--]);
    if (high < static_cast<int64_t>(cells.size())) order.push_back(cells[high++]);
  }
  return order;
}

}  // namespace

DetailChoice choose_details(std::span<const float> imbalance_before,
                            std::span<const float> imbalance_after, int64_t most,
                            std::span<const uint32_t> asked) {
  const auto num_cells = static_cast<int64_t>(imbalance_before.size());
  Chooser chooser(num_cells);
  std::string text;
  if (num_cells <= most) {
    CellOrder all(num_cells);
    std::iota(all.begin(), all.end(), 0u);
    chooser.take(all, num_cells, kDetailEveryNth);
  } else {
    const int64_t third = ceil_div(most, int64_t{3});
    const CellOrder before = falling(imbalance_before);
    int64_t worst = chooser.take(falling(imbalance_after), third / 2, kDetailWorst);
    worst += chooser.take(before, third - worst, kDetailWorst);
    const int64_t around =
        chooser.take(outwards(before), std::min(third, most - worst), kDetailMedian);
    const int64_t left = most - worst - around;
    text = "worst " + grouped(worst) + ", around the median " + grouped(around);
    if (left > 0) {
      const int64_t stride = ceil_div(num_cells, left);
      CellOrder cells;
      for (int64_t cell = 0; cell < num_cells; cell += stride) {
        cells.push_back(static_cast<uint32_t>(cell));
      }
      const int64_t taken = chooser.take(cells, left, kDetailEveryNth);
      text += ", " + every_nth(stride) + " " + grouped(taken);
    }
  }
  const int64_t added = chooser.take(asked, static_cast<int64_t>(asked.size()), kDetailAsked);
  DetailChoice choice = chooser.result();
  if (added > 0) text += ", asked for " + grouped(added);
  choice.text = text.empty() ? "all " + grouped(num_cells) + (num_cells == 1 ? " cell" : " cells")
                             : text + "; " + grouped(static_cast<int64_t>(choice.cells.size())) +
                                   " of " + grouped(num_cells) + " cells";
  return choice;
}

}  // namespace megaflux::viewer
