// The portfolio planners: every member searches on its own, the best candidate wins.
#include <utility>

#include "megaflux/plan/cost_rules.h"
#include "megaflux/plan/domain_planner.h"
#include "megaflux/plan/search/members.h"

namespace megaflux {
namespace {

class PortfolioPlanner final : public DomainPlanner {
 public:
  explicit PortfolioPlanner(PlanConfig config)
      : DomainPlanner(config, config.dims.block_rows),
        members_(first_wave(config.planner == PlannerKind::kPaper,
                            config.objective == Objective::kBackward)) {}

 private:
  DomainSolution solve(const DomainProblem& problem) final;
  void consider(int32_t member);
  bool needs_second_wave() const;
  void run_second_wave();
  void keep(const CandidateScore& score);
  void polish_winner();

  MemberRange members_;
  SearchState state_;
  CandidateScore best_;
  std::vector<SearchReplica> best_replicas_;
};

void PortfolioPlanner::consider(int32_t member) {
  const CandidateScore score = scorer().score(state_, member);
  if (score < best_) keep(score);
}

bool PortfolioPlanner::needs_second_wave() const {
  if (members_.begin != 0 || members_.end != kFirstPaper) return false;
  const ProblemView& problem = state_.problem();
  if (config().objective == Objective::kCost) {
    return another_wave_may_pay(cost_times(*config().cost), best_.objective, problem.tau);
  }
  return best_.reached > static_cast<uint64_t>(problem.accepted);
}

void PortfolioPlanner::run_second_wave() {
  const int64_t tau = state_.problem().tau;
  const bool is_forward = config().objective == Objective::kForward;
  const auto best = static_cast<int64_t>(best_.objective);
  for (int32_t member = kSecondWave.begin; member < kSecondWave.end; ++member) {
    const MemberSearch search = member_search(member, tau, best, is_forward);
    if (search.target < 0) continue;
    run_member(search, state_);
    consider(member);
  }
}

void PortfolioPlanner::keep(const CandidateScore& score) {
  best_ = score;
  best_replicas_.assign(state_.replicas().begin(), state_.replicas().end());
}

// Fewer moved blocks at the same loads, on the winner alone.
void PortfolioPlanner::polish_winner() {
  state_.start(state_.problem().tau);
  for (const SearchReplica& replica : best_replicas_) {
    if (replica.blocks > 0) state_.open(replica.expert, replica.rank, replica.blocks);
  }
  shorten(state_);
  const CandidateScore score = scorer().score(state_, best_.member);
  if (score < best_) keep(score);
}

DomainSolution PortfolioPlanner::solve(const DomainProblem& problem) {
  state_.attach(problem);
  state_.start(problem.tau);
  best_replicas_.reserve(2 * size_t(problem.num_ranks) * problem.replica_slots);
  keep(scorer().score(state_, -1));
  const bool is_balanced = config().objective != Objective::kCost &&
                           best_.objective <= static_cast<uint64_t>(problem.tau);
  if (!is_balanced && problem.replica_slots > 0) {
    for (int32_t member = members_.begin; member < members_.end; ++member) {
      run_member(member_search(member, problem.tau, 0, config().objective == Objective::kForward),
                 state_);
      consider(member);
    }
    if (needs_second_wave()) run_second_wave();
    polish_winner();
  }
  const int32_t search_id = best_.member < 0 ? -1 : best_.member - members_.begin;
  return {best_replicas_, best_.objective, search_id};
}

}  // namespace

std::unique_ptr<Planner> make_portfolio_planner(PlanConfig config) {
  return std::make_unique<PortfolioPlanner>(std::move(config));
}

}  // namespace megaflux
