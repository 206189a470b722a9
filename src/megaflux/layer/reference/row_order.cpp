#include "megaflux/layer/reference/row_order.h"

namespace megaflux {

RowOrder::RowOrder(std::span<const RoutingView> routing, int32_t num_experts) {
  const auto num_ranks = static_cast<int32_t>(routing.size());
  for (int32_t rank = 0; rank < num_ranks; ++rank) check_routing(routing[rank], rank, num_experts);
  loads_ = LoadTable::from_routing(routing, num_experts);
  begin_.assign(num_experts + 1, 0);
  for (int32_t e = 0; e < num_experts; ++e) begin_[e + 1] = begin_[e] + loads_.totals()[e];
  rows_.resize(begin_[num_experts]);
  std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    const RoutingView& view = routing[rank];
    for (int32_t token = 0; token < view.valid_tokens(); ++token) {
      for (int32_t k = 0; k < view.topk; ++k) {
        const int64_t expert = view.expert_at(token, k);
        if (expert >= 0) rows_[next[expert]++] = {rank, token, k};
      }
    }
  }
}

}  // namespace megaflux
