// PlacementPlanner: what the rivals share that move experts, owners included. By a history the
// experts are placed once, by the planner's first step; without one they are placed anew for every
// step, from its own loads. The plan then has the placement's owners and as many slots as it
// needs; its rows follow the step's loads. Every domain is placed on its own, on its active ranks.
//
// A placement that keeps a history is there before the step: the predicted time counts no copies.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "megaflux/plan/baselines/placement.h"
#include "megaflux/plan/domain_planner.h"

namespace megaflux {

// One domain to place.
struct DomainExperts {
  std::span<const int32_t> ranks;    // active, ascending
  std::span<const int32_t> experts;  // owned by them, ascending
  std::span<const int64_t> weights;  // of each
};

class PlacementPlanner : public Planner {
 public:
  const PlanConfig& config() const final { return config_; }
  void plan(const LoadTable& loads, std::span<const int32_t> resident, Plan& plan,
            PlanReport& report) final;

 protected:
  explicit PlacementPlanner(PlanConfig config);

  // Called before the first domain of a new placement.
  virtual void begin_placement() {}
  // Appends the copies of one domain with at least one expert, place after place.
  virtual void place_domain(const DomainExperts& domain, std::vector<PlacedCopy>& copies) = 0;
  // Rows of every copy of the placement, `rows` [copies] is overwritten.
  virtual void split(const LoadTable& loads, const Placement& placement,
                     std::span<int32_t> rows) = 0;

 private:
  void place(const LoadTable& loads);
  void draft_replicas(const LoadTable& loads);
  void assign(std::span<const int32_t> resident, const PlanReport& report, Plan& plan);
  // A domain's slowest rank, in rows (lambda included) or predicted nanoseconds.
  int64_t latest_finish(const DomainProblem& problem) const;
  uint64_t predict_ns(std::span<const DomainProblem> domains, bool is_fixed);

  PlanConfig config_;
  ProblemBuilder builder_;
  Placement placement_;
  int32_t replica_slots_ = 0;
  std::vector<PlacedCopy> copies_;
  std::vector<int64_t> weights_;
  std::vector<int32_t> experts_;
  std::vector<int32_t> rows_;  // of each copy
  std::vector<DraftReplica> replicas_;
  std::vector<int32_t> wide_resident_;
  std::vector<RankCost> costs_;  // [P], in rows until predict_ns
};

// Behind make_planner; `config` has passed check_config and its owner table is not empty.
std::unique_ptr<Planner> make_eplb_planner(PlanConfig config);
std::unique_ptr<Planner> make_lplb_planner(PlanConfig config);

}  // namespace megaflux
