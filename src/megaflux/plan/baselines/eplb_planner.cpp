// EPLB as a planner: places N = E + R s, spread evenly over the R ranks of a domain. Hierarchical
// where the domain is the whole group; a part of it is placed globally.
#include <utility>

#include "megaflux/plan/baselines/eplb.h"
#include "megaflux/plan/baselines/placement_planner.h"

namespace megaflux {
namespace {

class EplbPlanner final : public PlacementPlanner {
 public:
  explicit EplbPlanner(PlanConfig config) : PlacementPlanner(std::move(config)) {}

 private:
  void place_domain(const DomainExperts& domain, std::vector<PlacedCopy>& copies) final {
    const PlanDims& dims = config().dims;
    const EplbOptions& options = config().baselines.eplb;
    const auto num_ranks = static_cast<int32_t>(domain.ranks.size());
    EplbShape shape{
        .num_places = static_cast<int32_t>(domain.experts.size()) + num_ranks * dims.replica_slots,
        .num_gpus = num_ranks};
    if (num_ranks == dims.num_ranks && shape.num_places % options.num_nodes == 0) {
      shape.num_groups = options.num_groups;
      shape.num_nodes = options.num_nodes;
    }
    const std::vector<int32_t> places = rearrange_eplb(domain.weights, shape);
    for (int32_t gpu = 0; gpu < num_ranks; ++gpu) {
      const int32_t end = first_place(shape.num_places, num_ranks, gpu + 1);
      for (int32_t i = first_place(shape.num_places, num_ranks, gpu); i < end; ++i) {
        copies.push_back({.expert = domain.experts[places[i]], .rank = domain.ranks[gpu]});
      }
    }
  }

  void split(const LoadTable& loads, const Placement& placement, std::span<int32_t> rows) final {
    const EplbOptions& options = config().baselines.eplb;
    split_rows(placement, loads, options.selection, options.num_nodes, rows);
  }
};

}  // namespace

std::unique_ptr<Planner> make_eplb_planner(PlanConfig config) {
  return std::make_unique<EplbPlanner>(std::move(config));
}

}  // namespace megaflux
