// DomainPlanner: what all planners share. It measures the loads, asks the gates, has every NVLink
// domain solved on its own, lays the plan out and fills the report; a planner proper is its
// solve().
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "megaflux/plan/candidate.h"
#include "megaflux/plan/planner.h"
#include "megaflux/plan/problem.h"

namespace megaflux {

// A domain's decision, in local indices; valid until the next solve().
struct DomainSolution {
  std::span<const SearchReplica> replicas;  // entries with 0 blocks are skipped
  uint64_t objective = 0;                   // in the unit of the config's objective
  int32_t search_id = -1;
};

class DomainPlanner : public Planner {
 public:
  const PlanConfig& config() const final { return config_; }
  void plan(const LoadTable& loads, std::span<const int32_t> resident, Plan& plan,
            PlanReport& report) final;

 protected:
  // `config` has passed check_config and its owner table is not empty. `unit_rows` = rows of the
  // planner's unit: dims.block_rows, or 1.
  DomainPlanner(PlanConfig config, int32_t unit_rows);

  // Decides one domain with total_blocks > 0.
  virtual DomainSolution solve(const DomainProblem& problem) = 0;
  // False for planners that never replicate: they are neither gated nor charged for planning.
  virtual bool searches() const { return true; }
  // False for planners whose replicas no gate may refuse.
  virtual bool has_gates() const { return searches(); }

  CandidateScorer& scorer() { return scorer_; }
  // The step's loads, while it is planned.
  const LoadTable& loads() const { return *loads_; }

 private:
  // What one step decided, over all domains.
  struct Decision {
    GateDecision gate = GateDecision::kNotAsked;
    uint64_t objective = 0;
    int32_t search_id = -1;
    uint64_t ns = 0;  // with a cost model, planning included
    uint64_t fixed_ns = 0;
  };

  bool pre_gate_refuses(std::span<const int32_t> resident) const;
  Decision decide(const LoadTable& loads, std::span<const int32_t> resident);
  void solve_domains(const LoadTable& loads, std::span<const int32_t> resident, Decision& decision);
  void append(const DomainProblem& problem, const DomainSolution& solution);
  int32_t slots_needed();
  const PlanConfig& config_with_slots(int32_t replica_slots);

  PlanConfig config_;
  int32_t unit_rows_;
  ProblemBuilder builder_;
  CandidateScorer scorer_;
  std::vector<DraftReplica> replicas_;
  const LoadTable* loads_ = nullptr;
  std::vector<int32_t> slots_used_;  // [P]
  // For plans with more slots than the config has.
  PlanConfig wide_config_;
  std::vector<int32_t> wide_resident_;
};

// The planners behind make_planner; `config` has passed check_config and its owner table is not
// empty.
std::unique_ptr<Planner> make_portfolio_planner(PlanConfig config);  // kMegaflux, kPaper
std::unique_ptr<Planner> make_quota_planner(PlanConfig config);
std::unique_ptr<Planner> make_fixed_planner(PlanConfig config);

}  // namespace megaflux
