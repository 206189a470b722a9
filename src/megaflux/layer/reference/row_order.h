// The global row order of every expert: (source rank, token, k) ascending.
//
// Example, P = 2, K = 2: rank 0 routes token 0 to {1, 0} and token 1 to {1, -1}, rank 1 its token 0
// to {1, 1}. Expert 1 then has four rows in the order (0,0,0), (0,1,0), (1,0,0), (1,0,1); expert 0
// has (0,0,1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/moe/load_table.h"
#include "megaflux/moe/routing.h"

namespace megaflux {

// A (token, k) pair and the rank that holds the token.
struct RowSource {
  int32_t rank = 0;
  int32_t token = 0;
  int32_t k = 0;
  friend bool operator==(const RowSource&, const RowSource&) = default;
};

class RowOrder {
 public:
  // `routing` is [P]; the ids are checked, errors as in check_routing.
  RowOrder(std::span<const RoutingView> routing, int32_t num_experts);

  // Rows of one expert, in the global order.
  std::span<const RowSource> rows_of(int32_t expert) const {
    return std::span(rows_).subspan(begin_[expert], begin_[expert + 1] - begin_[expert]);
  }
  const LoadTable& loads() const { return loads_; }

 private:
  LoadTable loads_;
  std::vector<size_t> begin_;    // [E + 1]
  std::vector<RowSource> rows_;  // by (expert, global row order)
};

}  // namespace megaflux
