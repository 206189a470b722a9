// What each route family promises about its routing.
#include <algorithm>
#include <cmath>

#include "megaflux/base/check.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/moe/route_family.h"

namespace megaflux {
namespace {

// The totals as a table of `num_ranks` ranks, so that owner_imbalance sees them as contiguous
// owners do.
LoadTable totals_table(std::span<const int32_t> totals, int32_t num_ranks) {
  return LoadTable::from_totals(num_ranks, std::vector<int64_t>(totals.begin(), totals.end()));
}

std::vector<int32_t> totals_of(std::span<const Routing> routing, int32_t num_experts) {
  std::vector<int32_t> totals(num_experts, 0);
  std::vector<int32_t> rows(num_experts);
  for (const Routing& part : routing) {
    count_rows(part.view(), rows);
    for (int32_t e = 0; e < num_experts; ++e) totals[e] += rows[e];
  }
  return totals;
}

void check_tokens(const RouteRequest& request, std::span<const Routing> routing) {
  const std::string_view name = route_family_name(request.family);
  MF_CHECK(static_cast<int64_t>(routing.size()) == request.num_ranks, name, ": routing of ",
           routing.size(), " ranks, ", request.num_ranks, " asked for");
  for (size_t p = 0; p < routing.size(); ++p) {
    const Routing& part = routing[p];
    MF_CHECK(part.num_tokens == request.tokens_per_rank && part.topk == request.topk, name,
             ": rank ", p, ": ", part.num_tokens, " tokens x topk ", part.topk, ", ",
             request.tokens_per_rank, " x ", request.topk, " asked for");
    check_routing(part.view(), static_cast<int32_t>(p), request.num_experts);
    for (int32_t t = 0; t < part.num_tokens; ++t) {
      const auto ids = std::span(part.topk_ids).subspan(size_t(t) * part.topk, part.topk);
      for (size_t k = 0; k < ids.size(); ++k) {
        MF_CHECK(ids[k] >= 0 && std::find(ids.begin(), ids.begin() + k, ids[k]) == ids.begin() + k,
                 name, ": rank ", p, ", token ", t, ": ", ids[k], " stands twice or is no expert; ",
                 request.topk, " distinct ones are promised");
      }
    }
  }
}

void check_near(const RouteRequest& request, std::string_view figure, double value, double claim,
                double tolerance) {
  MF_CHECK(std::abs(value - claim) <= tolerance, route_family_name(request.family), ": ", figure,
           " is ", value, ", the claim is ", claim, " within ", tolerance);
}

void check_balanced(std::span<const int32_t> totals, const RouteFigures& figures) {
  const auto [least, most] = std::minmax_element(totals.begin(), totals.end());
  MF_CHECK(*most - *least <= 1, "balanced: experts get ", *least, " to ", *most,
           " rows, the claim is a difference of at most 1 (kappa ", figures.kappa, ", max/mean ",
           figures.imbalance, ", ", figures.active_experts, " of ", totals.size(),
           " experts active)");
}

void check_one_hot(const RouteRequest& request, std::span<const int32_t> totals) {
  const int64_t tokens = int64_t{request.num_ranks} * request.tokens_per_rank;
  const auto owner_of = contiguous_owners(request.num_experts, request.num_ranks);
  for (int32_t e = 0; e < request.num_experts; ++e) {
    const int64_t claim = e < request.topk ? tokens : 0;
    MF_CHECK(totals[e] == claim && (claim == 0 || owner_of[e] == 0), "one-hot: expert ", e,
             " of rank ", owner_of[e], " gets ", totals[e], " rows, the claim is ", claim,
             ", all of them on rank 0");
  }
}

}  // namespace

RouteFigures measure_routes(std::span<const Routing> routing, int32_t num_experts) {
  const auto totals = totals_of(routing, num_experts);
  const auto num_ranks = static_cast<int32_t>(routing.size());
  const LoadTable table = totals_table(totals, num_ranks);
  return {.kappa = kappa(table),
          .imbalance = owner_imbalance(table, contiguous_owners(num_experts, num_ranks)),
          .active_experts = static_cast<int32_t>(
              std::count_if(totals.begin(), totals.end(), [](int32_t c) { return c > 0; }))};
}

void check_claim(const RouteRequest& request, std::span<const Routing> routing) {
  check_request(request);
  check_tokens(request, routing);
  const auto totals = totals_of(routing, request.num_experts);
  const RouteFigures figures = measure_routes(routing, request.num_experts);
  const double row = 1.0 / (static_cast<double>(request.tokens_per_rank) * request.topk);
  switch (request.family) {
    case RouteFamily::kBalanced:
      return check_balanced(totals, figures);
    case RouteFamily::kNear:
      return check_near(request, "max/mean", figures.imbalance, 1.03, row);
    case RouteFamily::kHot15:
      return check_near(request, "max/mean", figures.imbalance, 1.5, row);
    case RouteFamily::kOneHot:
      return check_one_hot(request, totals);
    case RouteFamily::kZipfK3:
      return check_near(request, "kappa", figures.kappa, 3.0, 0.06);
    case RouteFamily::kZipfK6:
      return check_near(request, "kappa", figures.kappa, 6.0, 0.12);
    case RouteFamily::kRealMedian:
    case RouteFamily::kRealHigh:
    case RouteFamily::kRealExtreme:
      break;
  }
  // Scaling rounds every expert by less than a row, and may hold the hottest at T P.
  const auto counts = request.recorded_counts.subspan(
      pick_recorded_row(request) * request.num_experts, request.num_experts);
  const double recorded =
      owner_imbalance(totals_table(counts, request.num_ranks),
                      contiguous_owners(request.num_experts, request.num_ranks));
  const double experts_per_rank = static_cast<double>(request.num_experts) / request.num_ranks + 1;
  check_near(request, "max/mean", figures.imbalance, recorded,
             0.02 * recorded + experts_per_rank * row);
}

}  // namespace megaflux
