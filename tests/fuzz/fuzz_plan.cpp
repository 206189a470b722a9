// Bytes of a plan, as `run --plan` and the C interface take them.
#include <algorithm>

#include "fuzz/fuzz_harness.h"
#include "megaflux/plan/legality.h"
#include "megaflux/plan/planner.h"

namespace megaflux::fuzz {
namespace {

// Walks all that a plan shows.
int64_t sum_of(const Plan& plan) {
  const PlanDims dims = plan.dims();
  int64_t sum = 0;
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    for (const Instance& instance : plan.instances_of(e)) {
      require(instance.rank >= 0 && instance.rank < dims.num_ranks, "ranks of instances");
      require(instance.slot >= -1 && instance.slot < dims.replica_slots, "slots of instances");
      sum += instance.num_blocks;
    }
  }
  return sum;
}

}  // namespace

void fuzz_plan(Bytes bytes) {
  accept_refusal([&] {
    const Plan plan = Plan::from_bytes(bytes);
    const PlanDims dims = plan.dims();
    std::vector<int32_t> blocks(dims.num_ranks);
    plan.blocks_per_rank(blocks);
    int64_t sum = 0;
    for (const int32_t count : blocks) sum += count;
    require(sum == sum_of(plan), "blocks of ranks are those of the instances");
    require(std::ranges::equal(plan.bytes(), bytes), "a plan that is read is the plan");
    const std::vector<int64_t> totals(dims.num_experts, 1);
    PlanConfig config;
    config.dims = dims;
    (void)adopt_plan(bytes, LoadTable::from_totals(dims.num_ranks, totals), config);
  });
}

}  // namespace megaflux::fuzz
