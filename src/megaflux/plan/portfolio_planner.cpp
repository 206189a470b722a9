// The portfolio planners: every member searches on its own, the best candidate wins.
#include <array>
#include <utility>

#include "megaflux/plan/domain_planner.h"
#include "megaflux/plan/search/groups.h"
#include "megaflux/plan/search/paper.h"
#include "megaflux/plan/search/refine.h"

namespace megaflux {
namespace {

// T = ceil(tau (1 + x)) of the groups searches, x in millionths. Where copies have a price (lambda,
// predicted time) and a rank has few blocks, it pays to lower the worst ranks only: the wide
// targets.
constexpr std::array<int32_t, 7> kTargetsPpm = {0, 2'500, 5'000, 10'000, 20'000, 40'000, 80'000};
constexpr std::array<int32_t, 7> kWideTargetsPpm = {160'000, 250'000,   360'000,  500'000,
                                                    750'000, 1'000'000, 2'000'000};

// Members by id: [0, 14) groups, two receiver rules for each target; [14, 18) the paper's four;
// then 14 that depend on the objective. Where copies have a price: groups with wide targets.
// Forward, if none of the 18 reached what is accepted: groups that take the largest experts first,
// at targets that divide the way from tau to the best of the 18 into 15 parts.
constexpr int32_t kFirstPaper = 2 * static_cast<int32_t>(kTargetsPpm.size());
constexpr int32_t kFirstSecond = kFirstPaper + 4;
constexpr int32_t kNumMembers = kFirstSecond + 2 * static_cast<int32_t>(kWideTargetsPpm.size());
static_assert(kNumMembers <= 32, "one warp a member, one CTA");

struct MemberRange {
  int32_t begin = 0;
  int32_t end = 0;
};

MemberRange members_of(const PlanConfig& config) {
  if (config.planner == PlannerKind::kPaper) return {kFirstPaper, kFirstSecond};
  return {0, config.objective == Objective::kForward ? kFirstSecond : kNumMembers};
}

class PortfolioPlanner final : public DomainPlanner {
 public:
  explicit PortfolioPlanner(PlanConfig config)
      : DomainPlanner(config, config.dims.block_rows), members_(members_of(config)) {}

 private:
  DomainSolution solve(const DomainProblem& problem) final;
  void run_member(int32_t member);
  void run_between();
  void finish_member(int32_t member);
  void keep(const CandidateScore& score);
  void polish_winner();

  MemberRange members_;
  SearchState state_;
  CandidateScore best_;
  std::vector<SearchReplica> best_replicas_;
};

void PortfolioPlanner::run_member(int32_t member) {
  if (member >= kFirstPaper && member < kFirstSecond) {
    const int32_t variant = member - kFirstPaper;
    search_paper(variant < 2 ? DonorOrder::kOverload : DonorOrder::kLargestExpert,
                 variant % 2 == 0 ? CopiesPerRound::kOne : CopiesPerRound::kSeveral, state_);
  } else {
    const int32_t ppm = member < kFirstPaper ? kTargetsPpm[member / 2]
                                             : kWideTargetsPpm[(member - kFirstSecond) / 2];
    search_groups(DonorRule::kLargestExcess,
                  member % 2 == 0 ? ReceiverRule::kLargestDeficit : ReceiverRule::kSmallestCover,
                  scaled_up(state_.problem().tau, ppm), state_);
  }
  finish_member(member);
}

// Slots are short: what matters is how many blocks each of them carries, and a target that can be
// met exactly.
void PortfolioPlanner::run_between() {
  const int64_t tau = state_.problem().tau;
  const int64_t way = static_cast<int64_t>(best_.objective) - tau;
  constexpr int32_t kParts = kNumMembers - kFirstSecond + 1;
  for (int32_t part = 1; part < kParts; ++part) {
    if (way * part / kParts == way * (part - 1) / kParts) continue;  // the target of another member
    search_groups(DonorRule::kLargestExpert, ReceiverRule::kLargestDeficit,
                  tau + way * part / kParts, state_);
    finish_member(kFirstSecond + part - 1);
  }
}

void PortfolioPlanner::finish_member(int32_t member) {
  trim(std::max(state_.problem().accepted, max_finish(state_)), state_);
  level(state_);
  const CandidateScore score = scorer().score(state_, member);
  if (score < best_) keep(score);
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
    for (int32_t member = members_.begin; member < members_.end; ++member) run_member(member);
    const bool is_forward_portfolio = members_.begin == 0 && members_.end == kFirstSecond;
    if (is_forward_portfolio && best_.reached > static_cast<uint64_t>(problem.accepted)) {
      run_between();
    }
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
