// Candidates: finished solutions of one domain, what they cost, and the order in which they are
// preferred.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/plan/search_state.h"

namespace megaflux {

// Compared field by field, lowest first.
//
// Example with tau 100, slack 0.01, so 101 is good enough: {101, 5 copies, 101, ...} comes before
// {101, 6 copies, 100, ...}, and that before {103, 4 copies, 103, ...}.
struct CandidateScore {
  uint64_t reached = 0;      // the objective, or the accepted value (slack) if that is larger
  int32_t copies = 0;        // fresh replicas: weights that must move
  uint64_t objective = 0;    // largest finish time in units (lambda included), or nanoseconds
  int64_t moved_blocks = 0;  // units computed away from their owner
  int32_t member = -1;       // of the portfolio; -1 = fixed placement

  friend auto operator<=>(const CandidateScore&, const CandidateScore&) = default;
};

// Fills `ranks` [R] with what `replicas` ask of each rank. The cost model counts blocks of
// dims.block_rows rows; `units_per_block` is 1 for problems in such blocks and block_rows for
// problems in rows.
void fill_rank_costs(const ProblemView& problem, std::span<const SearchReplica> replicas,
                     int32_t units_per_block, std::span<RankCost> ranks);

// Scores states under one configuration.
class CandidateScorer {
 public:
  // `config` outlives the scorer.
  CandidateScorer(const PlanConfig& config, int32_t units_per_block)
      : config_(config), units_per_block_(units_per_block) {}

  CandidateScore score(const SearchState& state, int32_t member);
  // Predicted time of the domain, planning included. Needs a cost model.
  uint64_t predict_ns(const ProblemView& problem, std::span<const SearchReplica> replicas);

 private:
  const PlanConfig& config_;
  int32_t units_per_block_;
  std::vector<RankCost> rank_costs_;
};

}  // namespace megaflux
