// Route families: named, reproducible routings of a step for tests and benchmarks, each checked
// against its own claim before it is handed out.
//
// Example, hot-1.5, E = 8, K = 2, P = 4, T = 16: 128 rows, the mean of a rank is 32. Rank 0's
// experts 0 and 1 get 48 rows, split as 1 : 1/2 = 32 and 16; the other ranks share 80 rows as 26,
// 27 and 27, their experts as {13, 13, 13, 14, 13, 14}. kappa 1.146, imbalance 1.5, 8 active
// experts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megaflux/moe/routing.h"

namespace megaflux {

enum class RouteFamily : uint8_t {
  kBalanced,  // every expert the same rows, from every source, +-1
  kNear,      // rank 0's experts 1.03 x the mean together, split evenly
  kHot15,     // rank 0's experts 1.5 x the mean together, the i-th as 1 / (i + 1), at most T P each
  kOneHot,    // every token picks experts 0 ... K - 1, all of rank 0
  kZipfK3,    // Zipf over a permutation of the experts, K distinct draws a token, kappa 3
  kZipfK6,    // the same with kappa 6; needs E / K >= 12
  kRealMedian,   // recorded counts with the 50th percentile of imbalance at P ranks
  kRealHigh,     // 90th percentile
  kRealExtreme,  // 100th percentile
};
inline constexpr int32_t kNumRouteFamilies = 9;

// "balanced", "near", "hot-1.5", "one-hot", "zipf-k3", "zipf-k6", "real-median", "real-high",
// "real-extreme".
std::string_view route_family_name(RouteFamily family);
// Throws kBadInput listing the names.
RouteFamily route_family_from_name(std::string_view name);
// True for the real-* families, which need recorded counts.
bool needs_recorded_counts(RouteFamily family);

struct RouteRequest {
  RouteFamily family = RouteFamily::kBalanced;
  int32_t num_experts = 0;      // E
  int32_t topk = 0;             // K <= E
  int32_t num_ranks = 0;        // P; owners are contiguous
  int32_t tokens_per_rank = 0;  // T >= 1, the same on every rank; K T P < 2^31
  uint64_t seed = 1;
  // real-* only: any number of rows of E counts, [R, E].
  std::span<const int32_t> recorded_counts = {};
};

// What a routing turned out to be; owners contiguous.
struct RouteFigures {
  double kappa = 1.0;
  double imbalance = 1.0;  // max / mean rows over the owner ranks
  int32_t active_experts = 0;
};
RouteFigures measure_routes(std::span<const Routing> routing, int32_t num_experts);

struct RouteSet {
  std::vector<Routing> routing;  // [P], each of T tokens with K distinct experts
  RouteFigures figures;
};

// Throws kBadInput naming the field, the value and the limit; all that take a request do.
void check_request(const RouteRequest& request);

// Builds the family's routing and checks its claim. Throws kBadInput if the family does not exist
// for the request, naming the limit.
RouteSet make_routes(const RouteRequest& request);

// Throws kBadInput naming family, figure and claim unless `routing` is what the family promises,
// whoever made it.
void check_claim(const RouteRequest& request, std::span<const Routing> routing);

// Rows each expert gets over all ranks, [E], before they become tokens; K T P in sum.
std::vector<int32_t> route_totals(const RouteRequest& request);

// The claim of a real-* family: index of the row of `recorded_counts` [R, E] that has the family's
// percentile of imbalance at P ranks (nearest rank; rows without counts are left out; ties to the
// lower index).
int64_t pick_recorded_row(const RouteRequest& request);

}  // namespace megaflux
