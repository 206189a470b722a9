#include "megaflux/comm/row_map.h"

#include <algorithm>
#include <limits>

#include "megaflux/base/check.h"

namespace megaflux {

RouteFields add_route_fields(Layout& layout, int32_t num_experts, int32_t topk,
                             int32_t max_tokens) {
  const int64_t pairs = int64_t{max_tokens} * topk;
  MF_CHECK(pairs <= std::numeric_limits<int32_t>::max(), "max_tokens ", max_tokens, " x topk ",
           topk, " = ", pairs, " reaches the limit of 2^31 rows a rank");
  return {.offsets = layout.add<int32_t>("routes.offsets", static_cast<size_t>(num_experts) + 1),
          .pairs = layout.add<int32_t>("routes.pairs", static_cast<size_t>(pairs)),
          .topk = topk};
}

void build_route_list(const RoutingView& routing, std::span<const int32_t> rows,
                      std::span<int32_t> offsets, std::span<int32_t> pairs) {
  // offsets[e + 1] starts as the place of e's first pair and moves to its end: no second array of
  // cursors.
  int32_t sum = 0;
  offsets[0] = 0;
  for (size_t expert = 0; expert < rows.size(); ++expert) {
    offsets[expert + 1] = sum;
    sum += rows[expert];
  }
  MF_INVARIANT(static_cast<size_t>(sum) <= pairs.size(), sum, " routed pairs, room for ",
               pairs.size());
  const int32_t num_tokens = routing.valid_tokens();
  for (int32_t token = 0; token < num_tokens; ++token) {
    for (int32_t k = 0; k < routing.topk; ++k) {
      const int64_t expert = routing.expert_at(token, k);
      if (expert >= 0) pairs[offsets[expert + 1]++] = token * routing.topk + k;
    }
  }
}

void locate_rows(const HeapView& heap, const RouteFields& routes, const LoadTable& loads,
                 int32_t expert, int32_t first_row, std::span<RowOrigin> origins) {
  int64_t source_begin = 0;
  size_t done = 0;
  for (int32_t source = 0; source < loads.num_ranks() && done < origins.size(); ++source) {
    const int64_t source_end = source_begin + loads.rows(source, expert);
    int64_t row = static_cast<int64_t>(first_row) + static_cast<int64_t>(done);
    const int32_t* const pairs =
        heap.at(source, routes.pairs) + heap.at(source, routes.offsets)[expert];
    for (; row < source_end && done < origins.size(); ++row, ++done) {
      const int32_t pair = pairs[row - source_begin];
      origins[done] = {source, pair / routes.topk, pair % routes.topk};
    }
    source_begin = source_end;
  }
  MF_INVARIANT(done == origins.size(), "expert ", expert, " has no row ",
               int64_t{first_row} + static_cast<int64_t>(done));
}

}  // namespace megaflux
