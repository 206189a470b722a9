#include "megaflux/moe/routing.h"

#include <algorithm>

#include "megaflux/base/check.h"

namespace megaflux {

RoutingView Routing::view() const {
  return {.num_tokens = num_tokens,
          .topk = topk,
          .id_type = IdType::kInt32,
          .topk_ids = topk_ids.data(),
          .topk_weights = topk_weights.data()};
}

void check_routing(const RoutingView& routing, int32_t rank, int32_t num_experts) {
  MF_CHECK(routing.num_tokens >= 0, "rank ", rank, ": num_tokens: ", routing.num_tokens,
           " is negative");
  MF_CHECK(routing.topk >= 1 && routing.topk <= 64, "rank ", rank, ": topk: ", routing.topk,
           " is outside [1, 64]");
  if (routing.num_tokens == 0) return;
  MF_CHECK(routing.topk_ids != nullptr, "rank ", rank, ": topk_ids is null with ",
           routing.num_tokens, " tokens");
  MF_CHECK(routing.topk_weights != nullptr, "rank ", rank, ": topk_weights is null with ",
           routing.num_tokens, " tokens");
  const int32_t valid = routing.valid_tokens();
  for (int32_t token = 0; token < valid; ++token) {
    for (int32_t k = 0; k < routing.topk; ++k) {
      const int64_t expert = routing.expert_at(token, k);
      MF_CHECK(expert >= -1 && expert < num_experts, "rank ", rank, ": topk_ids[", token, "][", k,
               "]: ", expert, " is outside [-1, ", num_experts, ")");
    }
  }
}

void count_rows(const RoutingView& routing, std::span<int32_t> rows) {
  std::fill(rows.begin(), rows.end(), 0);
  const int32_t valid = routing.valid_tokens();
  for (int32_t token = 0; token < valid; ++token) {
    for (int32_t k = 0; k < routing.topk; ++k) {
      const int64_t expert = routing.expert_at(token, k);
      if (expert >= 0) ++rows[static_cast<size_t>(expert)];
    }
  }
}

}  // namespace megaflux
