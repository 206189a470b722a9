// Rows per expert of the route families.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "megaflux/base/check.h"
#include "megaflux/moe/draw_ids.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/moe/route_family.h"
#include "megaflux/moe/scale_counts.h"

namespace megaflux {
namespace {

int64_t tokens_of(const RouteRequest& request) {
  return int64_t{request.num_ranks} * request.tokens_per_rank;
}
int64_t rows_of(const RouteRequest& request) {
  return tokens_of(request) * request.topk;
}

// Part `index` of `total` cut into `num_parts` parts that differ by at most one, the larger ones
// spread evenly.
int64_t spread(int64_t total, int64_t num_parts, int64_t index) {
  return total * (index + 1) / num_parts - total * index / num_parts;
}

// max / mean of the rows that contiguous owners get.
double imbalance_of(std::span<const int32_t> totals, int32_t num_ranks) {
  const LoadTable table(1, static_cast<int32_t>(totals.size()), totals);
  const auto owner_of = contiguous_owners(table.num_experts(), num_ranks);
  std::vector<int64_t> rows(num_ranks, 0);
  for (size_t e = 0; e < totals.size(); ++e) rows[owner_of[e]] += totals[e];
  const double mean = static_cast<double>(table.total_rows()) / num_ranks;
  return static_cast<double>(*std::max_element(rows.begin(), rows.end())) / mean;
}

std::vector<int32_t> balanced_totals(const RouteRequest& request) {
  std::vector<int32_t> totals;
  for (int32_t e = 0; e < request.num_experts; ++e) {
    totals.push_back(static_cast<int32_t>(spread(rows_of(request), request.num_experts, e)));
  }
  return totals;
}

// Rank 0's experts share `hot_rows` by `weights`, at most T P each with the excess to the next; the
// other ranks share the rest evenly, and so do the experts of each.
std::vector<int32_t> hot_totals(const RouteRequest& request, int64_t hot_rows,
                                std::span<const int32_t> weights) {
  const std::string_view name = route_family_name(request.family);
  const int64_t limit = tokens_of(request);
  const auto owned =
      owned_experts(contiguous_owners(request.num_experts, request.num_ranks), request.num_ranks);
  const int64_t rest = rows_of(request) - hot_rows;
  const auto others =
      std::count_if(owned.begin() + 1, owned.end(), [](int32_t n) { return n > 0; });
  MF_CHECK(rest >= 0 && others > 0, name, ": needs at least 2 ranks with experts");
  MF_CHECK(hot_rows <= owned[0] * limit, name, ": rank 0's ", owned[0], " experts take at most ",
           owned[0] * limit, " of the ", hot_rows, " rows it must get");
  std::vector<int32_t> totals = scale_counts(weights, hot_rows, hot_rows);
  int64_t excess = 0;
  for (int32_t& rows : totals) {
    const int64_t wanted = rows + excess;
    rows = static_cast<int32_t>(std::min(wanted, limit));
    excess = wanted - rows;
  }
  for (int64_t r = 1; r <= others; ++r) {
    const int64_t rank_rows = spread(rest, others, r - 1);
    for (int32_t i = 0; i < owned[r]; ++i) {
      const int64_t rows = spread(rank_rows, owned[r], i);
      MF_CHECK(rows <= limit, name, ": an expert of rank ", r, " would get ", rows,
               " rows, more than the ", limit, " tokens");
      totals.push_back(static_cast<int32_t>(rows));
    }
  }
  return totals;
}

std::vector<int32_t> near_totals(const RouteRequest& request) {
  const int32_t owned = owned_experts(contiguous_owners(request.num_experts, request.num_ranks),
                                      request.num_ranks)[0];
  const int64_t mean = int64_t{request.tokens_per_rank} * request.topk;
  return hot_totals(request, (103 * mean + 50) / 100, std::vector<int32_t>(owned, 1));
}

std::vector<int32_t> hot15_totals(const RouteRequest& request) {
  const int32_t owned = owned_experts(contiguous_owners(request.num_experts, request.num_ranks),
                                      request.num_ranks)[0];
  constexpr int32_t kScale = 1 << 24;
  std::vector<int32_t> weights;
  for (int32_t i = 0; i < owned; ++i) weights.push_back(kScale / (i + 1));
  const int64_t mean = int64_t{request.tokens_per_rank} * request.topk;
  return hot_totals(request, 3 * mean / 2, weights);
}

std::vector<int32_t> one_hot_totals(const RouteRequest& request) {
  const int32_t owned = owned_experts(contiguous_owners(request.num_experts, request.num_ranks),
                                      request.num_ranks)[0];
  MF_CHECK(request.topk <= owned, "one-hot: rank 0 owns ", owned, " experts, topk ", request.topk,
           " of them are needed");
  std::vector<int32_t> totals(request.num_experts, 0);
  std::fill_n(totals.begin(), request.topk, static_cast<int32_t>(tokens_of(request)));
  return totals;
}

// Probability that each expert is among K distinct draws with weights (i + 1)^-exponent: expert i
// comes first at an exponential time of that rate, and the clock stops at the time when K are there
// in expectation.
std::vector<double> inclusion(int32_t num_experts, int32_t topk, double exponent) {
  std::vector<double> rate(num_experts);
  for (int32_t i = 0; i < num_experts; ++i) rate[i] = std::pow(i + 1.0, -exponent);
  const auto expected = [&](double time) {
    double sum = 0;
    for (const double r : rate) sum -= std::expm1(-r * time);
    return sum;
  };
  double low = 0;
  double high = 1;
  while (expected(high) < topk && high < 1e300) high *= 2;
  for (int step = 0; step < 100; ++step) {
    const double middle = 0.5 * (low + high);
    (expected(middle) < topk ? low : high) = middle;
  }
  for (double& r : rate) r = -std::expm1(-r * high);
  return rate;
}

double kappa_of(std::span<const double> shares) {
  double sum = 0;
  double squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return static_cast<double>(shares.size()) * squares / (sum * sum);
}

std::vector<int32_t> zipf_totals(const RouteRequest& request, double target) {
  const std::string_view name = route_family_name(request.family);
  // kappa cannot pass E / K, where every token has the same experts; near it the tail vanishes.
  const int32_t least = request.family == RouteFamily::kZipfK6 ? 12 : 4;
  MF_CHECK(request.num_experts >= least * request.topk, name, ": E / K = ", request.num_experts,
           " / ", request.topk, ", at least ", least, " is needed");
  double low = 0;
  double high = 16;
  for (int step = 0; step < 60; ++step) {
    const double middle = 0.5 * (low + high);
    const auto shares = inclusion(request.num_experts, request.topk, middle);
    (kappa_of(shares) < target ? low : high) = middle;
  }
  const auto shares = inclusion(request.num_experts, request.topk, high);
  std::vector<int32_t> by_popularity;
  for (const double share : shares) {
    by_popularity.push_back(static_cast<int32_t>(std::lround(share * (1 << 24))));
  }
  by_popularity = scale_counts(by_popularity, rows_of(request), tokens_of(request));
  // Which experts are popular decides the ranks' imbalance: of 64 permutations take the median one.
  struct Candidate {
    double imbalance;
    std::vector<int32_t> totals;
  };
  std::vector<Candidate> candidates;
  for (uint64_t seed = 1; seed <= 64; ++seed) {
    std::vector<int32_t> totals = by_popularity;
    shuffle(totals, seed);
    const double imbalance = imbalance_of(totals, request.num_ranks);
    candidates.push_back({imbalance, std::move(totals)});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.imbalance < b.imbalance; });
  return candidates[31].totals;
}

std::span<const int32_t> recorded_row(const RouteRequest& request, int64_t row) {
  return request.recorded_counts.subspan(row * request.num_experts, request.num_experts);
}

}  // namespace

int64_t pick_recorded_row(const RouteRequest& request) {
  check_request(request);
  const std::string_view name = route_family_name(request.family);
  MF_CHECK(
      !request.recorded_counts.empty() && request.recorded_counts.size() % request.num_experts == 0,
      name, ": ", request.recorded_counts.size(), " recorded counts, rows of ", request.num_experts,
      " are needed");
  struct Row {
    double imbalance;
    int64_t index;
  };
  std::vector<Row> rows;
  const auto num_rows = static_cast<int64_t>(request.recorded_counts.size() / request.num_experts);
  for (int64_t r = 0; r < num_rows; ++r) {
    const auto counts = recorded_row(request, r);
    if (std::all_of(counts.begin(), counts.end(), [](int32_t c) { return c == 0; })) continue;
    rows.push_back({imbalance_of(counts, request.num_ranks), r});
  }
  MF_CHECK(!rows.empty(), name, ": all recorded counts are 0");
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.imbalance < b.imbalance; });
  const size_t percent = request.family == RouteFamily::kRealMedian ? 50
                         : request.family == RouteFamily::kRealHigh ? 90
                                                                    : 100;
  return rows[(rows.size() * percent + 99) / 100 - 1].index;
}

std::vector<int32_t> route_totals(const RouteRequest& request) {
  check_request(request);
  switch (request.family) {
    case RouteFamily::kBalanced:
      return balanced_totals(request);
    case RouteFamily::kNear:
      return near_totals(request);
    case RouteFamily::kHot15:
      return hot15_totals(request);
    case RouteFamily::kOneHot:
      return one_hot_totals(request);
    case RouteFamily::kZipfK3:
      return zipf_totals(request, 3.0);
    case RouteFamily::kZipfK6:
      return zipf_totals(request, 6.0);
    case RouteFamily::kRealMedian:
    case RouteFamily::kRealHigh:
    case RouteFamily::kRealExtreme:
      return scale_counts(recorded_row(request, pick_recorded_row(request)), rows_of(request),
                          tokens_of(request));
  }
  throw_error(ErrorCode::kBadInput, "route family: no such value");
}

}  // namespace megaflux
