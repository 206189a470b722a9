// LLEP: every rank takes up to capacity = floor(alpha x floor(mean)) rows. Experts go by rows
// descending; what does not fit at the owner is given in chunks to the ranks that are least loaded,
// where rows of experts still to come count at their owners. A rank may pass its capacity if
// nobody can take a chunk of min_rows, and it may need any number of slots.
//
// Example, one-hot: rows {4096, 0, 0, 0, 0, 0, 0, 0}, four ranks, alpha 1: capacity 1024; the owner
// keeps 1024, and ranks 1, 2 and 3 take 1024 each.
#include <algorithm>
#include <numeric>
#include <utility>

#include "megaflux/plan/baselines/row_baseline.h"

namespace megaflux {
namespace {

constexpr int64_t kMillion = 1'000'000;

class LlepPlanner final : public RowBaseline {
 public:
  explicit LlepPlanner(PlanConfig config) : RowBaseline(std::move(config)) {}

 private:
  void place(const DomainProblem& problem, std::vector<SearchReplica>& replicas) final;
  void start(const DomainProblem& problem);
  void place_expert(int32_t expert, std::vector<SearchReplica>& replicas);
  int64_t give_chunks(int32_t expert, int64_t rest, std::vector<SearchReplica>& replicas);
  void order_hosts(int32_t owner);
  void give(int32_t expert, int32_t rank, int64_t rows, std::vector<SearchReplica>& replicas);
  int64_t effective(int32_t rank) const { return assigned_[rank] + pending_[rank]; }
  // Rows of a chunk for `rank`, 0 if it would be too small.
  int64_t chunk(int32_t rank, int64_t rest) const {
    const int64_t rows = std::min(rest, capacity_ - effective(rank));
    return rows < config().baselines.llep.min_rows && rows < rest ? 0 : rows;
  }

  const DomainProblem* problem_ = nullptr;
  int64_t capacity_ = 0;
  std::vector<int64_t> pending_;   // [R] rows of own experts that are not placed yet
  std::vector<int64_t> assigned_;  // [R]
  std::vector<int32_t> experts_;   // by rows descending
  std::vector<int32_t> hosts_;     // by effective load ascending, without the owner
};

void LlepPlanner::start(const DomainProblem& problem) {
  problem_ = &problem;
  const int64_t mean = problem.total_blocks / problem.num_ranks;
  capacity_ = std::max<int64_t>(1, mean * config().baselines.llep.alpha_ppm / kMillion);
  pending_.assign(problem.fixed_load.begin(), problem.fixed_load.end());
  assigned_.assign(problem.num_ranks, 0);
  experts_.resize(problem.num_experts);
  std::iota(experts_.begin(), experts_.end(), 0);
  std::sort(experts_.begin(), experts_.end(), [&](int32_t a, int32_t b) {
    if (problem.blocks[a] != problem.blocks[b]) return problem.blocks[a] > problem.blocks[b];
    return problem.experts[a] < problem.experts[b];
  });
}

void LlepPlanner::order_hosts(int32_t owner) {
  hosts_.resize(problem_->num_ranks);
  std::iota(hosts_.begin(), hosts_.end(), 0);
  hosts_.erase(hosts_.begin() + owner);
  std::sort(hosts_.begin(), hosts_.end(), [this](int32_t a, int32_t b) {
    return effective(a) != effective(b) ? effective(a) < effective(b) : a < b;
  });
}

void LlepPlanner::give(int32_t expert, int32_t rank, int64_t rows,
                       std::vector<SearchReplica>& replicas) {
  assigned_[rank] += rows;
  replicas.push_back({.expert = expert, .rank = rank, .blocks = static_cast<int32_t>(rows)});
}

// The owner kept a part: hosts are ordered anew after every chunk.
int64_t LlepPlanner::give_chunks(int32_t expert, int64_t rest,
                                 std::vector<SearchReplica>& replicas) {
  while (rest > 0) {
    order_hosts(problem_->owner[expert]);
    const auto host = std::find_if(hosts_.begin(), hosts_.end(),
                                   [&](int32_t rank) { return chunk(rank, rest) > 0; });
    if (host == hosts_.end()) break;
    const int64_t rows = chunk(*host, rest);
    give(expert, *host, rows, replicas);
    rest -= rows;
  }
  return rest;
}

void LlepPlanner::place_expert(int32_t expert, std::vector<SearchReplica>& replicas) {
  const int32_t owner = problem_->owner[expert];
  const int64_t rows = problem_->blocks[expert];
  pending_[owner] -= rows;
  const int64_t available = capacity_ - effective(owner);
  if (available >= rows) {
    assigned_[owner] += rows;
    return;
  }
  int64_t rest = rows;
  if (available > 0) {
    assigned_[owner] += available;
    rest = give_chunks(expert, rows - available, replicas);
  } else {
    // The owner may compute nothing of its own expert; hosts are ordered once.
    order_hosts(owner);
    for (const int32_t rank : hosts_) {
      const int64_t given = chunk(rank, rest);
      if (given <= 0) continue;
      give(expert, rank, given, replicas);
      rest -= given;
      if (rest == 0) break;
    }
  }
  if (rest > 0) give(expert, hosts_[0], rest, replicas);
}

void LlepPlanner::place(const DomainProblem& problem, std::vector<SearchReplica>& replicas) {
  const int32_t largest = *std::max_element(problem.fixed_load.begin(), problem.fixed_load.end());
  // largest / mean > gate, without a division. A rank alone has nobody to give to.
  const bool is_skewed = largest * kMillion * problem.num_ranks >
                         int64_t{problem.total_blocks} * config().baselines.llep.gate_ppm;
  if (!is_skewed || problem.num_ranks == 1) return;
  start(problem);
  for (const int32_t expert : experts_) place_expert(expert, replicas);
}

}  // namespace

std::unique_ptr<Planner> make_llep_planner(PlanConfig config) {
  return std::make_unique<LlepPlanner>(std::move(config));
}

}  // namespace megaflux
