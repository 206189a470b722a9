// A stranger's program: plans one step with the installed library.
// Expert 0 owns 5 of 7 blocks on rank 0; with one slot a rank the best maximum is tau = 4 blocks.
#include <cstdio>
#include <vector>

#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"
#include "megaflux/plan/planner.h"

int main() {
  const std::vector<int32_t> rows = {300, 60, 40, 300, 40, 50};  // [P = 2, E = 3]
  const megaflux::LoadTable loads(2, 3, rows);
  megaflux::PlanConfig config;
  config.dims = {.num_experts = 3, .num_ranks = 2, .replica_slots = 1, .block_rows = 128};
  const auto planner = megaflux::make_planner(config);
  megaflux::Plan plan;
  megaflux::PlanReport report;
  planner->plan(loads, {}, plan, report);
  std::printf("max %d blocks, tau %lld\n", plan.header().max_blocks,
              static_cast<long long>(report.tau));
  return report.has_plan() && plan.header().max_blocks == 4 ? 0 : 1;
}
