// Row maps: where global row j of expert e lives. Each source keeps the list of its own (token, k)
// pairs sorted by expert in its symmetric memory; with the load table, any rank derives source,
// token and k of any row.
//
// Example, P = 2, K = 2, E = 2: source 0 routes token 0 to {1, 0} and token 1 to {1, -1}; source 1
// routes token 0 to {1, 1}. Pairs are token * K + k:
//   source 0: offsets {0, 1, 3}, pairs {1, 0, 2};  source 1: offsets {0, 0, 2}, pairs {0, 1}.
// Expert 1 has 4 rows: (0, token 0, k 0), (0, token 1, k 0), (1, token 0, k 0), (1, token 0, k 1).
#pragma once

#include <cstdint>
#include <span>

#include "megaflux/comm/symmetric_heap.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/routing.h"

namespace megaflux {

struct RouteFields {
  Field<int32_t> offsets;  // [E + 1] first pair of each expert
  Field<int32_t> pairs;    // [T_max K] token * K + k, by (expert, token, k)
  int32_t topk = 0;        // K
};

// Throws kBadInput if T_max K is 2^31 or more, naming both.
RouteFields add_route_fields(Layout& layout, int32_t num_experts, int32_t topk, int32_t max_tokens);

// Fills one source's list: `rows` [E] are count_rows of the same routing, `offsets` is [E + 1] and
// `pairs` has room for their sum. Written before the entry of the launch whose peers read it.
void build_route_list(const RoutingView& routing, std::span<const int32_t> rows,
                      std::span<int32_t> offsets, std::span<int32_t> pairs);

// Where one row comes from and its result goes to.
struct RowOrigin {
  int32_t source = 0;  // rank of the token
  int32_t token = 0;
  int32_t k = 0;
  friend bool operator==(const RowOrigin&, const RowOrigin&) = default;
};

// origins[i] = origin of global row first_row + i of `expert`. Reads the lists of the sources, so
// it belongs between entry and exit of a launch. The rows must exist: first_row + origins.size() <=
// c_e.
void locate_rows(const HeapView& heap, const RouteFields& routes, const LoadTable& loads,
                 int32_t expert, int32_t first_row, std::span<RowOrigin> origins);

}  // namespace megaflux
