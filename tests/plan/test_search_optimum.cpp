// The portfolio against the exact optimum of small problems.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "megaflux/base/math.h"
#include "megaflux/base/rng.h"
#include "plan/planner_fixture.h"

namespace megaflux {
namespace {

// The least maximum for given sets of hosts (bit r = rank r may compute the expert): by Hall's
// theorem the largest ceil(blocks of S / ranks that may compute any of S) over sets S of experts.
int64_t least_maximum(const std::vector<int64_t>& blocks, const std::vector<uint32_t>& hosts) {
  int64_t most = 0;
  for (uint32_t set = 1; set < (1u << blocks.size()); ++set) {
    int64_t sum = 0;
    uint32_t ranks = 0;
    for (size_t e = 0; e < blocks.size(); ++e) {
      if ((set >> e & 1) == 0) continue;
      sum += blocks[e];
      ranks |= hosts[e];
    }
    most = std::max(most, ceil_div<int64_t>(sum, std::popcount(ranks)));
  }
  return most;
}

// Tries every way to fill one slot a rank, ranks `rank` and up.
int64_t optimum(const std::vector<int64_t>& blocks, std::vector<uint32_t>& hosts, uint32_t rank,
                uint32_t num_ranks) {
  int64_t best = least_maximum(blocks, hosts);
  for (uint32_t r = rank; r < num_ranks; ++r) {
    for (uint32_t& ranks : hosts) {
      if ((ranks >> r & 1) != 0) continue;
      ranks |= 1u << r;
      best = std::min(best, optimum(blocks, hosts, r + 1, num_ranks));
      ranks &= ~(1u << r);
    }
  }
  return best;
}

TEST(SearchOptimum, the_portfolio_reaches_it_in_nearly_all_small_problems) {
  constexpr int32_t kRanks = 4, kExperts = 6, kCases = 150;
  Rng rng(46);
  int32_t reached = 0;
  double worst = 1;
  for (int32_t n = 0; n < kCases; ++n) {
    std::vector<int64_t> blocks;
    for (int32_t e = 0; e < kExperts; ++e) blocks.push_back(1 + rng.below(rng.below(3) ? 25 : 120));
    const Planned planned = plan_once(row_config(PlannerKind::kMegaflux, kExperts, kRanks, 1),
                                      loads_of(kRanks, blocks));
    std::vector<uint32_t> hosts;
    for (const int32_t owner : planned.plan.owner_of()) hosts.push_back(1u << owner);
    const int64_t best = optimum(blocks, hosts, 0, kRanks);
    ASSERT_GE(planned.plan.header().max_blocks, best);
    reached += planned.plan.header().max_blocks == best;
    worst = std::max(worst, planned.plan.header().max_blocks / double(best));
  }
  RecordProperty("reached", reached);
  RecordProperty("worst", std::to_string(worst));
  EXPECT_GE(reached, kCases * 98 / 100) << "worst ratio " << worst;
  EXPECT_LE(worst, 1.05);
}

}  // namespace
}  // namespace megaflux
