#include "megaflux/comm/row_map.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

// The lists of all sources in one heap, and the load table they add up to.
struct Routed {
  Routed(int32_t num_experts, int32_t topk, int32_t max_tokens, const std::vector<Routing>& sources)
      : routes(add_route_fields(layout, num_experts, topk, max_tokens)),
        heap(layout, static_cast<int32_t>(sources.size())) {
    std::vector<int32_t> table;
    for (size_t rank = 0; rank < sources.size(); ++rank) {
      const auto source = static_cast<int32_t>(rank);
      std::vector<int32_t> rows(num_experts);
      count_rows(sources[rank].view(), rows);
      std::ranges::fill(heap.view().span_of(source, routes.pairs), -7);
      build_route_list(sources[rank].view(), rows, heap.view().span_of(source, routes.offsets),
                       heap.view().span_of(source, routes.pairs));
      table.insert(table.end(), rows.begin(), rows.end());
    }
    loads.assign(static_cast<int32_t>(sources.size()), num_experts, table);
  }
  Layout layout;
  RouteFields routes;
  SymmetricHeap heap;
  LoadTable loads;
};

Routing make_routing(int32_t topk, std::vector<int32_t> ids) {
  const auto num_tokens = static_cast<int32_t>(ids.size()) / topk;
  std::vector<float> weights(ids.size(), 0.5f);
  return {num_tokens, topk, std::move(ids), std::move(weights)};
}

TEST(RowMap, HeaderExample) {
  Routed routed(2, 2, 2, {make_routing(2, {1, 0, 1, -1}), make_routing(2, {1, 1})});
  const auto list = [&](int32_t source, auto field) {
    const auto span = routed.heap.view().span_of(source, field);
    return std::vector<int32_t>(span.begin(), span.end());
  };
  EXPECT_EQ(list(0, routed.routes.offsets), (std::vector<int32_t>{0, 1, 3}));
  EXPECT_EQ(list(0, routed.routes.pairs), (std::vector<int32_t>{1, 0, 2, -7}));
  EXPECT_EQ(list(1, routed.routes.offsets), (std::vector<int32_t>{0, 0, 2}));
  EXPECT_EQ(list(1, routed.routes.pairs), (std::vector<int32_t>{0, 1, -7, -7}));
  std::vector<RowOrigin> origins(4);
  locate_rows(routed.heap.view(), routed.routes, routed.loads, 1, 0, origins);
  EXPECT_EQ(origins, (std::vector<RowOrigin>{{0, 0, 0}, {0, 1, 0}, {1, 0, 0}, {1, 0, 1}}));
}

TEST(RowMap, RowsBeyondTheEndAreAnError) {
  Routed routed(2, 2, 2, {make_routing(2, {1, 0, 1, -1}), make_routing(2, {1, 1})});
  std::vector<RowOrigin> origins(3);
  EXPECT_THROW(locate_rows(routed.heap.view(), routed.routes, routed.loads, 1, 2, origins), Error);
}

TEST(RowMap, RefusesTooManyPairs) {
  Layout layout;
  EXPECT_THROW(add_route_fields(layout, 4, 64, 1 << 26), Error);
}

RC_GTEST_PROP(RowMap, AnyRangeOfAnyExpertIsTheGlobalOrder, ()) {
  const auto num_ranks = *rc::gen::inRange(1, 6);
  const auto num_experts = *rc::gen::inRange(1, 12);
  const auto topk = *rc::gen::inRange(1, 5);
  std::vector<Routing> sources;
  std::vector<std::vector<RowOrigin>> expected(num_experts);
  for (int32_t source = 0; source < num_ranks; ++source) {
    const auto num_tokens = *rc::gen::inRange(0, 9);
    std::vector<int32_t> ids;
    for (int32_t token = 0; token < num_tokens; ++token) {
      for (int32_t k = 0; k < topk; ++k) {
        ids.push_back(*rc::gen::inRange(-1, num_experts));
        if (ids.back() >= 0) expected[ids.back()].push_back({source, token, k});
      }
    }
    sources.push_back(make_routing(topk, ids));
  }
  const Routed routed(num_experts, topk, 8, sources);
  for (int32_t expert = 0; expert < num_experts; ++expert) {
    const auto& rows = expected[expert];
    RC_ASSERT(routed.loads.totals()[expert] == static_cast<int32_t>(rows.size()));
    const auto first = *rc::gen::inRange<size_t>(0, rows.size() + 1);
    const auto count = *rc::gen::inRange<size_t>(0, rows.size() - first + 1);
    std::vector<RowOrigin> origins(count, {-9, -9, -9});
    locate_rows(routed.heap.view(), routed.routes, routed.loads, expert,
                static_cast<int32_t>(first), origins);
    RC_ASSERT(std::equal(origins.begin(), origins.end(), rows.begin() + first));
  }
}

}  // namespace
}  // namespace megaflux
