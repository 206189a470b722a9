#include "simulate/owner_suggestion.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"
#include "megaflux/moe/owner_table.h"
#include "simulate/parallel_items.h"

namespace megaflux::simulate {
namespace {

// A step's rows are counted as shares of this, so that every step weighs the same.
constexpr int64_t kWhole = int64_t{1} << 30;
constexpr int64_t kSearchSteps = 128;
// Looks at a pair of experts times steps; bounds the time of one layer to about a second.
constexpr int64_t kMostLooks = int64_t{1} << 28;

// Shares [steps, E] of evenly spaced steps with rows.
std::vector<int64_t> search_shares(const LayerHistory& history) {
  std::vector<int64_t> with_rows;
  const int64_t num_experts = history.num_experts;
  const auto rows_of = [&](int64_t step) {
    return std::span(history.rows).subspan(step * num_experts, num_experts);
  };
  const auto sum_of = [](std::span<const int32_t> rows) {
    return std::accumulate(rows.begin(), rows.end(), int64_t{0});
  };
  for (int64_t step = 0; step < history.num_steps(); ++step) {
    if (sum_of(rows_of(step)) > 0) with_rows.push_back(step);
  }
  const auto available = static_cast<int64_t>(with_rows.size());
  const int64_t count = std::min(available, kSearchSteps);
  std::vector<int64_t> shares;
  shares.reserve(count * num_experts);
  for (int64_t i = 0; i < count; ++i) {
    const auto rows = rows_of(with_rows[i * available / count]);
    const int64_t sum = sum_of(rows);
    for (const int32_t count_of_expert : rows) shares.push_back(count_of_expert * kWhole / sum);
  }
  return shares;
}

// The table being improved, and the load of every rank in every step.
class OwnerSearch {
 public:
  OwnerSearch(std::vector<int64_t> shares, int32_t num_experts, int32_t num_ranks)
      : shares_(std::move(shares)),
        num_experts_(num_experts),
        num_ranks_(num_ranks),
        num_steps_(static_cast<int64_t>(shares_.size()) / num_experts),
        owner_of_(num_experts, -1),
        owned_(num_ranks, 0),
        loads_(num_steps_ * num_ranks, 0),
        top_(num_steps_) {}

  void place_heaviest_first() {
    std::vector<int64_t> weight(num_experts_, 0), rank_weight(num_ranks_, 0);
    for (size_t i = 0; i < shares_.size(); ++i) weight[i % num_experts_] += shares_[i];
    std::vector<int32_t> order(num_experts_);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return weight[a] > weight[b]; });
    for (const int32_t e : order) {
      int32_t lightest = -1;
      for (int32_t rank = 0; rank < num_ranks_; ++rank) {
        if (has_room(rank) && (lightest < 0 || rank_weight[rank] < rank_weight[lightest])) {
          lightest = rank;
        }
      }
      rank_weight[lightest] += weight[e];
      give(e, lightest);
    }
    for (int64_t step = 0; step < num_steps_; ++step) rank_top(step);
  }

  void improve() {
    for (bool has_improved = true; has_improved && looks_ < kMostLooks;) {
      has_improved = false;
      for (int32_t a = 0; a < num_experts_ && looks_ < kMostLooks; ++a) {
        for (int32_t rank = 0; rank < num_ranks_; ++rank) has_improved |= try_move(a, rank);
        for (int32_t b = a + 1; b < num_experts_; ++b) has_improved |= try_swap(a, b);
      }
    }
  }

  const std::vector<int32_t>& owner_of() const { return owner_of_; }

 private:
  struct Top {
    // The three most loaded ranks, -1 beyond P.
    std::array<int32_t, 3> rank = {-1, -1, -1};
  };

  // At most E mod P ranks hold one expert more than the others.
  bool has_room(int32_t rank) const {
    const int32_t least = num_experts_ / num_ranks_;
    if (owned_[rank] < least) return true;
    return owned_[rank] == least && ranks_with_more_ < num_experts_ % num_ranks_;
  }

  int64_t& load(int64_t step, int32_t rank) { return loads_[step * num_ranks_ + rank]; }
  int64_t share(int64_t step, int32_t e) const { return shares_[step * num_experts_ + e]; }

  void give(int32_t e, int32_t rank) {
    owner_of_[e] = rank;
    ranks_with_more_ += owned_[rank]++ == num_experts_ / num_ranks_;
    for (int64_t step = 0; step < num_steps_; ++step) load(step, rank) += share(step, e);
  }
  void take(int32_t e) {
    const int32_t rank = owner_of_[e];
    ranks_with_more_ -= owned_[rank]-- == num_experts_ / num_ranks_ + 1;
    for (int64_t step = 0; step < num_steps_; ++step) load(step, rank) -= share(step, e);
  }

  void rank_top(int64_t step) {
    Top top;
    for (int32_t rank = 0; rank < num_ranks_; ++rank) {
      int32_t held = rank;
      for (int32_t& place : top.rank) {
        if (place >= 0 && load(step, place) >= load(step, held)) continue;
        std::swap(place, held);
        if (held < 0) break;
      }
    }
    top_[step] = top;
  }

  // Sum over the steps of what the largest load of a rank would gain if `to_b` went from rank a to
  // rank b in each step; positive = worse.
  template <typename Shift>
  int64_t change(int32_t a, int32_t b, const Shift& to_b) {
    looks_ += num_steps_;
    int64_t sum = 0;
    for (int64_t step = 0; step < num_steps_; ++step) {
      const int64_t shift = to_b(step);
      int64_t most = std::max(load(step, a) - shift, load(step, b) + shift);
      for (const int32_t rank : top_[step].rank) {
        if (rank < 0 || rank == a || rank == b) continue;
        most = std::max(most, load(step, rank));
        break;
      }
      sum += most - load(step, top_[step].rank[0]);
    }
    return sum;
  }

  bool try_swap(int32_t e, int32_t f) {
    const int32_t a = owner_of_[e], b = owner_of_[f];
    if (a == b) return false;
    const auto shift = [&](int64_t step) { return share(step, e) - share(step, f); };
    if (change(a, b, shift) >= 0) return false;
    take(e);
    take(f);
    give(e, b);
    give(f, a);
    for (int64_t step = 0; step < num_steps_; ++step) rank_top(step);
    return true;
  }

  // Where ranks may hold one expert more, an expert may go from such a rank to one without.
  bool try_move(int32_t e, int32_t b) {
    const int32_t a = owner_of_[e], least = num_experts_ / num_ranks_;
    if (a == b || owned_[a] <= least || owned_[b] > least) return false;
    if (change(a, b, [&](int64_t step) { return share(step, e); }) >= 0) return false;
    take(e);
    give(e, b);
    for (int64_t step = 0; step < num_steps_; ++step) rank_top(step);
    return true;
  }

  const std::vector<int64_t> shares_;  // [steps, E]
  const int32_t num_experts_;
  const int32_t num_ranks_;
  const int64_t num_steps_;
  std::vector<int32_t> owner_of_;
  std::vector<int32_t> owned_;
  int32_t ranks_with_more_ = 0;  // than floor(E / P) experts
  std::vector<int64_t> loads_;   // [steps, P]
  std::vector<Top> top_;
  int64_t looks_ = 0;
};

}  // namespace

double mean_imbalance(const LayerHistory& history, std::span<const int32_t> owner_of,
                      int32_t num_ranks) {
  std::vector<int64_t> loads(num_ranks);
  double sum = 0;
  int64_t steps = 0;
  for (int64_t step = 0; step < history.num_steps(); ++step) {
    std::fill(loads.begin(), loads.end(), 0);
    for (int32_t e = 0; e < history.num_experts; ++e) {
      loads[owner_of[e]] += history.rows[step * history.num_experts + e];
    }
    const int64_t total = std::accumulate(loads.begin(), loads.end(), int64_t{0});
    if (total == 0) continue;
    const int64_t most = *std::max_element(loads.begin(), loads.end());
    sum += static_cast<double>(most * num_ranks) / static_cast<double>(total);
    ++steps;
  }
  return steps > 0 ? sum / static_cast<double>(steps) : 1;
}

std::vector<int32_t> suggest_owners(const LayerHistory& history, int32_t num_ranks) {
  MF_CHECK(history.num_experts >= 1 && history.rows.size() % history.num_experts == 0,
           "history: ", history.rows.size(), " rows are no steps of ", history.num_experts,
           " experts");
  MF_CHECK(num_ranks >= 1 && num_ranks <= kMaxRanks, "num_ranks: ", num_ranks, " is outside [1, ",
           kMaxRanks, "]");
  const std::vector<int32_t> by_default = contiguous_owners(history.num_experts, num_ranks);
  OwnerSearch search(search_shares(history), history.num_experts, num_ranks);
  search.place_heaviest_first();
  search.improve();
  const bool is_better = mean_imbalance(history, search.owner_of(), num_ranks) <
                         mean_imbalance(history, by_default, num_ranks);
  return is_better ? search.owner_of() : by_default;
}

OwnerSplit split_for_owners(const Trace& trace, const std::vector<Cell>& cells) {
  std::vector<int64_t> steps;
  for (const Cell& cell : cells) steps.push_back(cell.step);
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  OwnerSplit split;
  split.is_held_out = trace.meta().time_ordered && steps.size() >= 2;
  if (!split.is_held_out) return {.chosen_by = cells, .judged_by = cells};
  const int64_t first_judge = steps[steps.size() / 2];
  for (const Cell& cell : cells) {
    (cell.step < first_judge ? split.chosen_by : split.judged_by).push_back(cell);
  }
  return split;
}

std::vector<std::vector<int32_t>> suggest_owners(const Trace& trace, const std::vector<Cell>& cells,
                                                 int32_t num_ranks, int32_t num_threads) {
  const int32_t num_experts = trace.meta().num_experts;
  std::vector<std::vector<int32_t>> owners(trace.num_layers(),
                                           contiguous_owners(num_experts, num_ranks));
  run_items(num_threads, trace.num_layers(), [&](int32_t, int64_t layer) {
    LayerHistory history{.num_experts = num_experts, .rows = {}};
    for (const Cell& cell : cells) {
      if (cell.layer_idx != layer) continue;
      const LoadTable loads = trace.loads(cell.step, cell.layer_idx, 1);
      history.rows.insert(history.rows.end(), loads.totals().begin(), loads.totals().end());
    }
    if (!history.rows.empty()) owners[layer] = suggest_owners(history, num_ranks);
  });
  return owners;
}

}  // namespace megaflux::simulate
