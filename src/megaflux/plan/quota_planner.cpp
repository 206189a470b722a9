// The quota planner, row-granular; search/quota.h says how it searches.
#include <utility>

#include "megaflux/plan/domain_planner.h"
#include "megaflux/plan/search/quota.h"

namespace megaflux {
namespace {

class QuotaPlanner final : public DomainPlanner {
 public:
  explicit QuotaPlanner(PlanConfig config) : DomainPlanner(std::move(config), 1) {}

 private:
  DomainSolution solve(const DomainProblem& problem) final;

  SearchState state_;
};

DomainSolution QuotaPlanner::solve(const DomainProblem& problem) {
  state_.attach(problem);
  state_.start(problem.tau);
  const CandidateScore fixed = scorer().score(state_, -1);
  search_quota(config().slack_ppm, problem.max_fixed_finish(), state_);
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
