// Fixed placement: every block stays with its expert's owner.
#include <utility>

#include "megaflux/plan/domain_planner.h"

namespace megaflux {
namespace {

class FixedPlanner final : public DomainPlanner {
 public:
  explicit FixedPlanner(PlanConfig config) : DomainPlanner(config, config.dims.block_rows) {}

 private:
  DomainSolution solve(const DomainProblem& problem) final {
    return {.replicas = {}, .objective = static_cast<uint64_t>(problem.max_fixed_finish())};
  }
  bool searches() const final { return false; }
};

}  // namespace

std::unique_ptr<Planner> make_fixed_planner(PlanConfig config) {
  return std::make_unique<FixedPlanner>(std::move(config));
}

}  // namespace megaflux
