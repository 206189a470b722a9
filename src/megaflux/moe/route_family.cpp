#include "megaflux/moe/route_family.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "megaflux/base/check.h"
#include "megaflux/moe/draw_ids.h"
#include "megaflux/moe/limits.h"

namespace megaflux {
namespace {

constexpr std::array<std::string_view, kNumRouteFamilies> kNames = {
    "balanced", "near",        "hot-1.5",   "one-hot",     "zipf-k3",
    "zipf-k6",  "real-median", "real-high", "real-extreme"};

// Counts of each source for balanced routing: the rows of all ranks go round the experts in one
// cycle, so that rank p continues where rank p - 1 stopped. The experts with a row more than others
// open the cycle.
std::vector<Routing> balanced_routing(const RouteRequest& request) {
  std::vector<int32_t> cycle(request.num_experts);
  std::iota(cycle.begin(), cycle.end(), 0);
  shuffle(cycle, request.seed);
  const auto totals = route_totals(request);
  const int32_t least = *std::min_element(totals.begin(), totals.end());
  std::stable_partition(cycle.begin(), cycle.end(), [&](int32_t e) { return totals[e] > least; });
  std::vector<Routing> parts;
  const int64_t rows = int64_t{request.tokens_per_rank} * request.topk;
  for (int64_t p = 0; p < request.num_ranks; ++p) {
    std::vector<int32_t> counts(request.num_experts,
                                static_cast<int32_t>(rows / request.num_experts));
    for (int64_t i = rows / request.num_experts * request.num_experts; i < rows; ++i) {
      ++counts[cycle[(p * rows + i) % request.num_experts]];
    }
    const uint64_t seed = request.seed + static_cast<uint64_t>(p);
    auto ids = draw_ids(counts, request.tokens_per_rank, request.topk, seed);
    auto weights = draw_weights(ids, request.topk, seed);
    parts.push_back({.num_tokens = request.tokens_per_rank,
                     .topk = request.topk,
                     .topk_ids = std::move(ids),
                     .topk_weights = std::move(weights)});
  }
  return parts;
}

// Tokens drawn for all ranks together and dealt out in equal parts.
std::vector<Routing> drawn_routing(const RouteRequest& request) {
  const auto totals = route_totals(request);
  const auto ids =
      draw_ids(totals, request.num_ranks * request.tokens_per_rank, request.topk, request.seed);
  const auto weights = draw_weights(ids, request.topk, request.seed);
  const int64_t rows = int64_t{request.tokens_per_rank} * request.topk;
  std::vector<Routing> parts;
  for (int64_t p = 0; p < request.num_ranks; ++p) {
    parts.push_back(
        {.num_tokens = request.tokens_per_rank,
         .topk = request.topk,
         .topk_ids = {ids.begin() + p * rows, ids.begin() + (p + 1) * rows},
         .topk_weights = {weights.begin() + p * rows, weights.begin() + (p + 1) * rows}});
  }
  return parts;
}

}  // namespace

void check_request(const RouteRequest& request) {
  const auto in_range = [](std::string_view field, int64_t value, int64_t low, int64_t high) {
    MF_CHECK(value >= low && value <= high, field, ": ", value, " is outside [", low, ", ", high,
             "], as a route family needs");
  };
  in_range("num_experts", request.num_experts, 1, kMaxExperts);
  in_range("topk", request.topk, 1, std::min(kMaxTopk, request.num_experts));
  in_range("num_ranks", request.num_ranks, 1, kMaxRanks);
  in_range("tokens_per_rank", request.tokens_per_rank, 1, int64_t{1} << 30);
  in_range("rows of the step", int64_t{request.topk} * request.num_ranks * request.tokens_per_rank,
           1, (int64_t{1} << 31) - 1);
}

std::string_view route_family_name(RouteFamily family) {
  return kNames[static_cast<size_t>(family)];
}

RouteFamily route_family_from_name(std::string_view name) {
  std::string known;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<RouteFamily>(i);
    known.append(i == 0 ? "" : ", ").append(kNames[i]);
  }
  throw_error(ErrorCode::kBadInput, "route family: '", name, "' is none of ", known);
}

bool needs_recorded_counts(RouteFamily family) {
  return family >= RouteFamily::kRealMedian;
}

RouteSet make_routes(const RouteRequest& request) {
  check_request(request);
  RouteSet set;
  set.routing =
      request.family == RouteFamily::kBalanced ? balanced_routing(request) : drawn_routing(request);
  check_claim(request, set.routing);
  set.figures = measure_routes(set.routing, request.num_experts);
  return set;
}

}  // namespace megaflux
