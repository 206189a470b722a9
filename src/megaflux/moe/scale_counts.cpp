#include "megaflux/moe/scale_counts.h"

#include <algorithm>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

// Floors and remainders of total * counts[e] / sum over the experts in `open`; the remaining rows
// go to the largest remainders, ties to the lower expert. No share passes `limit`: the caller has
// closed those that would.
void share_out(std::span<const int32_t> counts, std::span<const int32_t> open, int64_t total,
               std::span<int32_t> scaled) {
  int64_t sum = 0;
  for (const int32_t e : open) sum += counts[e];
  if (sum == 0) return;
  std::vector<int64_t> remainder(counts.size(), 0);
  int64_t left = total;
  for (const int32_t e : open) {
    scaled[e] = static_cast<int32_t>(total * counts[e] / sum);
    remainder[e] = total * counts[e] % sum;
    left -= scaled[e];
  }
  std::vector<int32_t> order(open.begin(), open.end());
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return remainder[a] > remainder[b]; });
  for (int64_t i = 0; i < left; ++i) ++scaled[order[i]];
}

}  // namespace

std::vector<int32_t> scale_counts(std::span<const int32_t> counts, int64_t total, int64_t limit) {
  MF_CHECK(total >= 0 && total < (int64_t{1} << 31), "scaled counts: a total of ", total,
           " is outside [0, 2^31)");
  std::vector<int32_t> open;
  int64_t sum = 0;
  for (size_t e = 0; e < counts.size(); ++e) {
    MF_CHECK(counts[e] >= 0, "counts: expert ", e, ": ", counts[e], " is negative");
    if (counts[e] > 0) open.push_back(static_cast<int32_t>(e));
    sum += counts[e];
  }
  MF_CHECK(sum < (int64_t{1} << 31), "counts: ", sum, " rows, below 2^31 expected");
  MF_CHECK(total <= static_cast<int64_t>(open.size()) * limit, "scaled counts: ", total,
           " rows do not fit ", open.size(), " experts with rows of at most ", limit, " each");
  if (sum == total &&
      std::all_of(counts.begin(), counts.end(), [&](int32_t count) { return count <= limit; })) {
    return {counts.begin(), counts.end()};
  }
  limit = std::min(limit, total);  // keeps the products below 2^62
  std::vector<int32_t> scaled(counts.size(), 0);
  // Hold back every expert whose share passes the limit, until none does: at most E rounds.
  for (bool changed = true; changed;) {
    changed = false;
    int64_t open_sum = 0;
    for (const int32_t e : open) open_sum += counts[e];
    const int64_t open_total = total;
    std::erase_if(open, [&](int32_t e) {
      if (open_total * counts[e] <= limit * open_sum) return false;
      scaled[e] = static_cast<int32_t>(limit);
      total -= limit;
      changed = true;
      return true;
    });
  }
  share_out(counts, open, total, scaled);
  return scaled;
}

}  // namespace megaflux
