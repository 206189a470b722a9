// MoonEP: every rank ends at exactly its capacity, floor(mean) or one row more. The rank furthest
// above gives the rank furthest below its whole deficit, so every rank receives from one donor at
// most; the donor may fall below and receive later. How a donor's rows are told apart: the largest
// quota takes the expert with most rows left, again and again.
//
// Example, rows {9, 5, 7, 3, 3, 2, 2, 1}, four ranks with two experts each, capacity 8: loads {14,
// 10, 5, 3}. Rank 0 gives rank 3 five rows, rank 1 gives rank 2 three, and rank 0 the last row to
// rank 1.
#include <algorithm>
#include <utility>

#include "megaflux/plan/baselines/row_baseline.h"

namespace megaflux {
namespace {

class MoonepPlanner final : public RowBaseline {
 public:
  explicit MoonepPlanner(PlanConfig config) : RowBaseline(std::move(config)) {}

 private:
  void place(const DomainProblem& problem, std::vector<SearchReplica>& replicas) final;
  void balance_ranks(const DomainProblem& problem);
  void split_donor(const DomainProblem& problem, int32_t donor,
                   std::vector<SearchReplica>& replicas);

  std::vector<int64_t> balance_;    // [R] load - capacity
  std::vector<int32_t> donor_;      // [R] who fills this rank, -1 = nobody
  std::vector<int64_t> quota_;      // [R] rows it gets from there
  std::vector<int32_t> rows_left_;  // of the donor's experts
};

void MoonepPlanner::balance_ranks(const DomainProblem& problem) {
  const int32_t num_ranks = problem.num_ranks;
  const int32_t mean = problem.total_blocks / num_ranks;
  balance_.resize(num_ranks);
  donor_.assign(num_ranks, -1);
  quota_.assign(num_ranks, 0);
  for (int32_t r = 0; r < num_ranks; ++r) {
    balance_[r] = problem.fixed_load[r] - mean - (r < problem.total_blocks % num_ranks);
  }
  for (int32_t round = 1; round < num_ranks; ++round) {
    // The first of equals: the lowest id.
    const auto most = std::max_element(balance_.begin(), balance_.end());
    const auto least = std::min_element(balance_.begin(), balance_.end());
    if (*most <= 0) break;
    const auto receiver = static_cast<int32_t>(least - balance_.begin());
    donor_[receiver] = static_cast<int32_t>(most - balance_.begin());
    quota_[receiver] = -*least;
    *most += *least;
    *least = 0;
  }
}

void MoonepPlanner::split_donor(const DomainProblem& problem, int32_t donor,
                                std::vector<SearchReplica>& replicas) {
  const int32_t first = problem.first_owned[donor];
  rows_left_.assign(problem.blocks.begin() + first,
                    problem.blocks.begin() + problem.first_owned[donor + 1]);
  while (true) {
    int32_t receiver = -1;
    for (int32_t r = 0; r < problem.num_ranks; ++r) {
      if (donor_[r] != donor || quota_[r] == 0) continue;
      if (receiver < 0 || quota_[r] > quota_[receiver]) receiver = r;
    }
    if (receiver < 0) return;
    size_t expert = 0;
    for (size_t i = 1; i < rows_left_.size(); ++i) {
      const int32_t more = rows_left_[i] - rows_left_[expert];
      const bool is_lower = problem.experts[first + i] < problem.experts[first + expert];
      if (more > 0 || (more == 0 && is_lower)) expert = i;
    }
    const auto rows = static_cast<int32_t>(std::min<int64_t>(quota_[receiver], rows_left_[expert]));
    quota_[receiver] -= rows;
    rows_left_[expert] -= rows;
    replicas.push_back(
        {.expert = first + static_cast<int32_t>(expert), .rank = receiver, .blocks = rows});
  }
}

void MoonepPlanner::place(const DomainProblem& problem, std::vector<SearchReplica>& replicas) {
  balance_ranks(problem);
  for (int32_t donor = 0; donor < problem.num_ranks; ++donor) {
    split_donor(problem, donor, replicas);
  }
}

}  // namespace

std::unique_ptr<Planner> make_moonep_planner(PlanConfig config) {
  return std::make_unique<MoonepPlanner>(std::move(config));
}

}  // namespace megaflux
