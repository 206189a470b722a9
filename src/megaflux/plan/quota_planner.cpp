// The quota planner, row-granular. A threshold T is feasible if every rank above T can export down
// to exactly T: ranks by load descending, their experts by rows descending, each time to the rank
// with most room that has a free slot and does not hold the expert; the owner keeps at least one
// row. The threshold is the first feasible one of tau0, tau0 + d, tau0 + 2d, ..., then bisected
// inside the last step; feasibility is not monotone, so a wider bisection could miss it.
//
// Example: four ranks with one expert each, rows {65536, 0, 0, 0}, one slot, slack 0.01: tau0 =
// ceil(16384 * 1.01) = 16548. Rank 0 exports 48,988 rows: 16,548 to rank 1, 16,548 to rank 2,
// 15,892 to rank 3.
#include <algorithm>
#include <limits>
#include <utility>

#include "megaflux/plan/domain_planner.h"
#include "megaflux/plan/search/quota.h"
#include "megaflux/plan/search/refine.h"

namespace megaflux {
namespace {

class QuotaPlanner final : public DomainPlanner {
 public:
  explicit QuotaPlanner(PlanConfig config) : DomainPlanner(std::move(config), 1) {}

 private:
  DomainSolution solve(const DomainProblem& problem) final;
  int64_t first_threshold(const DomainProblem& problem) const;
  static int64_t least_possible(const DomainProblem& problem);
  int64_t next_threshold(int64_t threshold, int64_t step, int64_t most) const;

  SearchState state_;
};

// ceil(mean (1 + slack)), the mean taken over what all ranks have to do and their speeds, and no
// less than tau.
int64_t QuotaPlanner::first_threshold(const DomainProblem& problem) const {
  int64_t work = problem.total_blocks, speed = 0;
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    work += problem.base[r];
    speed += problem.speed[r];
  }
  return std::max(problem.tau, ceil_div(scaled_up(work, config().slack_ppm) * 1024, speed));
}

// No threshold below this is feasible, since
//  - an owner keeps a row of each expert and pays lambda for each that has replicas, and those are
//    at most as many as the slots of the other ranks;
//  - unless nobody exports, some rank must have room for the smallest replica that pays. Room never
//    grows while donors export, since none falls below the threshold.
int64_t QuotaPlanner::least_possible(const DomainProblem& problem) {
  const int64_t lambda = problem.lambda_blocks;
  const int64_t others_slots = int64_t{problem.replica_slots} * (problem.num_ranks - 1);
  int64_t after_export = 0;
  int64_t smallest = std::numeric_limits<int64_t>::max();
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    int64_t kept = problem.fixed_load[r], replicated = 0;
    for (int32_t e = problem.first_owned[r]; e < problem.first_owned[r + 1]; ++e) {
      const int64_t needed = std::max<int64_t>(problem.least_present[e], lambda + 1);
      if (problem.blocks[e] <= needed || replicated == others_slots) continue;
      ++replicated;  // experts stand in descending size, so these save most
      kept -= problem.blocks[e] - 1 - lambda;
      smallest = std::min(smallest, needed);
    }
    after_export = std::max(after_export, problem.finish(r, static_cast<int32_t>(kept)));
  }
  const int64_t most = problem.max_fixed_finish();
  int64_t first_room = most;
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    if (smallest > problem.total_blocks - problem.fixed_load[r]) continue;
    const auto load = static_cast<int32_t>(problem.fixed_load[r] + smallest);
    first_room = std::min(first_room, problem.finish(r, load));
  }
  return std::max(after_export, first_room);
}

// The next threshold on the grid at which some rank's capacity is larger. Those in between would
// repeat the search: beside a rank of speed 65535, one of speed 1 takes another row every 1024.
int64_t QuotaPlanner::next_threshold(int64_t threshold, int64_t step, int64_t most) const {
  const ProblemView& problem = state_.problem();
  int64_t changed = most;
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    const int32_t capacity = problem.capacity(r, threshold);
    if (capacity < problem.total_blocks) {
      changed = std::min(changed, problem.finish(r, capacity + 1));
    }
  }
  const int64_t steps = std::max<int64_t>(1, ceil_div(changed - threshold, step));
  return std::min(threshold + steps * step, most);
}

DomainSolution QuotaPlanner::solve(const DomainProblem& problem) {
  state_.attach(problem);
  state_.start(problem.tau);
  const CandidateScore fixed = scorer().score(state_, -1);
  const int64_t most = problem.max_fixed_finish();  // feasible: nobody exports
  const int64_t first = std::min(first_threshold(problem), most);
  const int64_t step = std::max<int64_t>(1, first / 1000);
  // Steps that cannot be feasible are skipped, not tried.
  const int64_t skipped = ceil_div(std::max<int64_t>(0, least_possible(problem) - first), step);
  int64_t feasible = std::min(first + skipped * step, most);
  while (!is_quota_feasible(feasible, state_)) feasible = next_threshold(feasible, step, most);
  int64_t refused = std::max(first - 1, feasible - step);
  while (feasible - refused > 1) {
    const int64_t middle = refused + (feasible - refused) / 2;
    (is_quota_feasible(middle, state_) ? feasible : refused) = middle;
  }
  is_quota_feasible(feasible, state_);
  const CandidateScore score = scorer().score(state_, 0);
  if (score.objective >= fixed.objective) return {{}, fixed.objective, -1};
  return {state_.replicas(), score.objective, 0};
}

}  // namespace

std::unique_ptr<Planner> make_quota_planner(PlanConfig config) {
  // The least size of a copy is a matter of blocks; rows have min_rows_per_replica.
  config.min_copy_blocks = 1;
  return std::make_unique<QuotaPlanner>(std::move(config));
}

}  // namespace megaflux
