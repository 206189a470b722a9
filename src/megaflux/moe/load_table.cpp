#include "megaflux/moe/load_table.h"

#include <algorithm>
#include <limits>

#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"

namespace megaflux {
namespace {

constexpr int64_t kMaxRows = std::numeric_limits<int32_t>::max();

void check_extent(int32_t num_ranks, size_t num_experts) {
  MF_CHECK(num_ranks >= 1 && num_ranks <= kMaxRanks, "num_ranks: ", num_ranks, " is outside [1, ",
           kMaxRanks, "]");
  MF_CHECK(num_experts >= 1 && num_experts <= kMaxExperts, "num_experts: ", num_experts,
           " is outside [1, ", kMaxExperts, "]");
}

void check_sum(int64_t sum) {
  MF_CHECK(sum <= kMaxRows, "loads: ", sum, " rows in the step, at most ", kMaxRows,
           " are supported");
}

}  // namespace

LoadTable::LoadTable(int32_t num_ranks, int32_t num_experts, std::span<const int32_t> rows) {
  assign(num_ranks, num_experts, rows);
}

LoadTable LoadTable::from_routing(std::span<const RoutingView> routing, int32_t num_experts) {
  check_extent(static_cast<int32_t>(routing.size()), static_cast<size_t>(std::max(num_experts, 0)));
  std::vector<int32_t> rows(routing.size() * num_experts);
  for (size_t rank = 0; rank < routing.size(); ++rank) {
    count_rows(routing[rank], std::span(rows).subspan(rank * num_experts, num_experts));
  }
  return LoadTable(static_cast<int32_t>(routing.size()), num_experts, rows);
}

LoadTable LoadTable::from_routing(std::span<const Routing> routing, int32_t num_experts) {
  std::vector<RoutingView> views;
  for (const Routing& of_rank : routing) views.push_back(of_rank.view());
  return from_routing(views, num_experts);
}

void LoadTable::assign(int32_t num_ranks, int32_t num_experts, std::span<const int32_t> rows) {
  check_extent(num_ranks, static_cast<size_t>(std::max(num_experts, 0)));
  MF_CHECK(rows.size() == static_cast<size_t>(num_ranks) * num_experts, "loads: ", rows.size(),
           " counts given, ", num_ranks, " ranks x ", num_experts, " experts expected");
  int64_t sum = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    MF_CHECK(rows[i] >= 0, "loads: rank ", i / num_experts, ", expert ", i % num_experts, ": ",
             rows[i], " is negative");
    sum += rows[i];
  }
  check_sum(sum);
  num_ranks_ = num_ranks;
  num_experts_ = num_experts;
  has_sources_ = true;
  total_rows_ = sum;
  rows_.assign(rows.begin(), rows.end());
  totals_.assign(num_experts, 0);
  for (int32_t p = 0; p < num_ranks; ++p) {
    const auto row = rows_of_source(p);
    for (int32_t e = 0; e < num_experts; ++e) totals_[e] += row[e];
  }
}

// Written rank by rank without a division an entry: a table of many ranks is filled for each of
// many thousand steps.
void LoadTable::assign_totals(int32_t num_ranks, std::span<const int32_t> totals) {
  check_extent(num_ranks, totals.size());
  int64_t sum = 0;
  for (size_t e = 0; e < totals.size(); ++e) {
    MF_CHECK(totals[e] >= 0, "loads: expert ", e, ": ", totals[e], " is outside [0, ", kMaxRows,
             "]");
    sum += totals[e];
  }
  check_sum(sum);
  const size_t num_experts = totals.size();
  num_ranks_ = num_ranks;
  num_experts_ = static_cast<int32_t>(num_experts);
  has_sources_ = false;
  total_rows_ = sum;
  totals_.assign(totals.begin(), totals.end());
  rows_.resize(static_cast<size_t>(num_ranks) * num_experts);
  int32_t* last = rows_.data() + (num_ranks - 1) * num_experts;  // quotients, until its turn comes
  for (size_t e = 0; e < num_experts; ++e) last[e] = totals_[e] / num_ranks;
  for (int32_t p = 0; p < num_ranks - 1; ++p) {
    int32_t* row = rows_.data() + p * num_experts;
    for (size_t e = 0; e < num_experts; ++e) {
      row[e] = last[e] + (p < totals_[e] - last[e] * num_ranks);
    }
  }
}

LoadTable LoadTable::from_totals(int32_t num_ranks, std::span<const int64_t> totals) {
  std::vector<int32_t> counts;
  counts.reserve(totals.size());
  for (size_t e = 0; e < totals.size(); ++e) {
    MF_CHECK(totals[e] >= 0 && totals[e] <= kMaxRows, "loads: expert ", e, ": ", totals[e],
             " is outside [0, ", kMaxRows, "]");
    counts.push_back(static_cast<int32_t>(totals[e]));
  }
  LoadTable table;
  table.assign_totals(num_ranks, counts);
  return table;
}

int64_t LoadTable::rows_in_blocks(int32_t expert, int32_t first, int32_t count,
                                  int32_t block_rows) const {
  const int64_t begin = std::min<int64_t>(int64_t{first} * block_rows, totals_[expert]);
  const int64_t end = std::min<int64_t>((int64_t{first} + count) * block_rows, totals_[expert]);
  return end - begin;
}

double owner_imbalance(const LoadTable& loads, std::span<const int32_t> owner_of) {
  MF_CHECK(owner_of.size() == static_cast<size_t>(loads.num_experts()),
           "owner_of: ", owner_of.size(), " entries for ", loads.num_experts(), " experts");
  if (loads.total_rows() == 0) return 1.0;
  std::vector<int64_t> owned(loads.num_ranks(), 0);
  for (int32_t e = 0; e < loads.num_experts(); ++e) {
    MF_CHECK(owner_of[e] >= 0 && owner_of[e] < loads.num_ranks(), "owner_of: expert ", e, ": rank ",
             owner_of[e], " is outside [0, ", loads.num_ranks(), ")");
    owned[owner_of[e]] += loads.totals()[e];
  }
  const double mean = static_cast<double>(loads.total_rows()) / loads.num_ranks();
  return static_cast<double>(*std::max_element(owned.begin(), owned.end())) / mean;
}

double kappa(const LoadTable& loads) {
  if (loads.total_rows() == 0) return 1.0;
  double sum_of_squares = 0;
  for (const int32_t count : loads.totals()) {
    const double share = static_cast<double>(count) / static_cast<double>(loads.total_rows());
    sum_of_squares += share * share;
  }
  return loads.num_experts() * sum_of_squares;
}

}  // namespace megaflux
