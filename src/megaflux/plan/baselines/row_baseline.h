// RowBaseline: what the rivals that replicate for one step share. They count rows (block_rows of
// their plans is 1), look at nothing but loads and ranks (other work, speeds, lambda and residents
// play no part in their decisions, and no gate of ours is asked), and some of them take more slots
// than there are: the plan then has as many slots as it needs, and PlanReport::slots_needed says
// so.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "megaflux/plan/domain_planner.h"

namespace megaflux {

class RowBaseline : public DomainPlanner {
 protected:
  explicit RowBaseline(PlanConfig config) : DomainPlanner(std::move(config), 1) {}

  // Appends the replicas of one domain with rows, in local indices. Rows of equal (expert, rank)
  // are added up; an owner's own entries are left out.
  virtual void place(const DomainProblem& problem, std::vector<SearchReplica>& replicas) = 0;

 private:
  DomainSolution solve(const DomainProblem& problem) final;
  bool has_gates() const final { return false; }
  void merge(const DomainProblem& problem);
  uint64_t objective(const DomainProblem& problem);

  std::vector<SearchReplica> replicas_;
  std::vector<int32_t> loads_;  // [R]
};

// Behind make_planner; `config` has passed check_config and its owner table is not empty.
std::unique_ptr<Planner> make_ultraep_planner(PlanConfig config);
std::unique_ptr<Planner> make_llep_planner(PlanConfig config);
std::unique_ptr<Planner> make_echo_planner(PlanConfig config);
std::unique_ptr<Planner> make_moonep_planner(PlanConfig config);
std::unique_ptr<Planner> make_broadcast_planner(PlanConfig config);

}  // namespace megaflux
