// LoadTable: rows[p][e] = rows that source rank p sends to expert e in this step.
//
// Example, P = 2, E = 3, beta = 4: rows = {{5, 0, 1}, {4, 2, 0}}. Totals c = {9, 2, 1}; blocks
// b_e = ceil(c_e / 4) = {3, 1, 1}. The global row order of expert 0 is rank 0's five rows, then
// rank 1's four; its block 1 = rows [4, 8) = the last row of rank 0 and three rows of rank 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/moe/routing.h"

namespace megaflux {

class LoadTable {
 public:
  LoadTable() = default;
  // `rows` is [P, E] row-major. Throws kBadInput naming rank, expert, value and limit if a count is
  // negative or the sum reaches 2^31.
  LoadTable(int32_t num_ranks, int32_t num_experts, std::span<const int32_t> rows);

  // Totals without sources, split evenly over the ranks, remainder to the low ones; has_sources()
  // is false.
  static LoadTable from_totals(int32_t num_ranks, std::span<const int64_t> totals);

  // What the ranks' tokens are routed to; `routing` [P]. The ids must have passed check_routing.
  // Throws as the constructor.
  static LoadTable from_routing(std::span<const RoutingView> routing, int32_t num_experts);
  static LoadTable from_routing(std::span<const Routing> routing, int32_t num_experts);

  // Both replace the counts, reusing the memory, with the checks of the constructor and of
  // from_totals. `rows` is [P, E], `totals` [E].
  void assign(int32_t num_ranks, int32_t num_experts, std::span<const int32_t> rows);
  void assign_totals(int32_t num_ranks, std::span<const int32_t> totals);

  int32_t num_ranks() const { return num_ranks_; }
  int32_t num_experts() const { return num_experts_; }
  // False if the split over sources is made up, so that remote figures mean nothing.
  bool has_sources() const { return has_sources_; }

  int32_t rows(int32_t source, int32_t expert) const {
    return rows_[static_cast<size_t>(source) * num_experts_ + expert];
  }
  // Rows of all sources, [P, E].
  std::span<const int32_t> rows() const { return rows_; }
  std::span<const int32_t> rows_of_source(int32_t source) const {
    return std::span(rows_).subspan(static_cast<size_t>(source) * num_experts_, num_experts_);
  }
  // c_e for all experts, [E].
  std::span<const int32_t> totals() const { return totals_; }
  // Sum of c_e, below 2^31.
  int64_t total_rows() const { return total_rows_; }

  // Blocks of expert e: ceil(c_e / block_rows).
  int32_t blocks(int32_t expert, int32_t block_rows) const {
    return totals_[expert] / block_rows + (totals_[expert] % block_rows != 0);
  }
  // Rows inside blocks [first, first + count) of expert e.
  int64_t rows_in_blocks(int32_t expert, int32_t first, int32_t count, int32_t block_rows) const;

 private:
  int32_t num_ranks_ = 0;
  int32_t num_experts_ = 0;
  bool has_sources_ = true;
  int64_t total_rows_ = 0;
  std::vector<int32_t> rows_;    // [P, E]
  std::vector<int32_t> totals_;  // [E]
};

// max over ranks of the rows owned / mean over ranks, for owner table `owner_of` [E]; 1 if there
// are no rows.
double owner_imbalance(const LoadTable& loads, std::span<const int32_t> owner_of);

// kappa = E * sum_e (c_e / sum c)^2; 1 = uniform, E = one expert gets all; 1 if there are no rows.
double kappa(const LoadTable& loads);

}  // namespace megaflux
