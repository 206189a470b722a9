// UltraEP 1.0.0's quota solver for one domain: three attempts with a floor that follows the need,
// then bisection of the capacity and a four-way search.
//
// The oracle at tau: ranks above tau, by load descending, export down to exactly tau; each gives
// its experts by rows descending, each time to the rank with most room that has a free slot and
// does not hold the expert. No export is smaller than a floor: min_rows_per_replica, or in the
// three attempts ceil(need / admissible targets).
//
// Example, four ranks with one expert each, one slot, rows {65536, 0, 0, 0}: mean 16384, tau =
// ceil(16384 * 1.01f) = 16548. Rank 0 keeps 16548 rows and exports 16548, 16548 and 15892.
#pragma once

#include <cstdint>
#include <vector>

#include "megaflux/plan/baselines/baseline_config.h"
#include "megaflux/plan/search_state.h"

namespace megaflux {

struct UltraepOutcome {
  int64_t tau = 0;
  int32_t attempts = 0;  // 1 ... 3: which attempt succeeded; 4 = the fallback
};

class UltraepSolver {
 public:
  explicit UltraepSolver(UltraepOptions options) : options_(options) {}

  // `replicas` is overwritten, in the order of the exports; blocks are rows.
  UltraepOutcome solve(const DomainProblem& problem, std::vector<SearchReplica>& replicas);

 private:
  enum class Floor : uint8_t { kDynamic, kMinRows };

  void order_sources();
  bool has_capacity(int64_t tau) const;
  int64_t least_with_capacity(int64_t low, int64_t high) const;
  int64_t search_four_ways(int64_t low, int64_t high);
  bool is_feasible(int64_t tau, Floor floor);
  bool export_from(int32_t source, int64_t need, Floor floor);
  int32_t choose_target(int32_t expert, int64_t need, int64_t available, Floor floor) const;

  UltraepOptions options_;
  const DomainProblem* problem_ = nullptr;
  std::vector<SearchReplica>* replicas_ = nullptr;
  std::vector<int32_t> sources_;     // [R] by load descending
  std::vector<int64_t> room_;        // [R]
  std::vector<int32_t> slots_left_;  // [R]
  std::vector<uint8_t> holds_;       // [R] ranks with a replica of the expert being exported
  int64_t total_room_ = 0;
  int64_t total_excess_ = 0;
};

}  // namespace megaflux
