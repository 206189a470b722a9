// gather_loads: from the routing of every rank to one LoadTable on all of them. A rank's counts are
// its entry, so the exchange costs no launch of its own; its route list, from which peers derive
// where each row lives, is built while the others' counts are on the way.
//
// Example, P = 2, E = 3, K = 2: rank 0 routes {0, 2, 0, -1}, rank 1 nothing (T = 0). Both end with
// rows = {{2, 0, 1}, {0, 0, 0}}.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megaflux/comm/entry_exit.h"
#include "megaflux/comm/rank_context.h"
#include "megaflux/comm/row_map.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/routing.h"

namespace megaflux {

struct GatherConfig {
  int32_t num_experts = 0;  // E, 1 ... 4096
  int32_t topk = 0;         // K, 1 ... 64
  int32_t max_tokens = 0;   // T_max, tokens a rank
};

// Throws kBadInput naming the field, the value and the limit.
void check_gather_config(const GatherConfig& config);

// One rank's side; all memory is allocated at creation.
class LoadGatherer {
 public:
  // `routes` are the places of the route lists in the group's heap, made for the same E, K and
  // T_max.
  LoadGatherer(const GatherConfig& config, const RouteFields& routes, int32_t num_ranks);

  // Collective, compute role. Posts `words` and this rank's counts and returns the table of all
  // ranks, valid until the next call. If any rank's routing is bad (an id outside [-1, E), T >
  // T_max, another K, a missing pointer) every rank throws AgreedError kBadInput with the lowest
  // such rank's message, and likewise if 2^31 rows or more are routed in all. Disagreement as in
  // await_entries.
  const LoadTable& gather(RankContext& ctx, const EntryWords& words, const RoutingView& routing);

  // The table of the last gather; without rows before the first.
  const LoadTable& loads() const { return loads_; }

 private:
  void check(const RankContext& ctx, const RoutingView& routing) const;

  GatherConfig config_;
  RouteFields routes_;
  std::vector<int32_t> rows_;   // [E] of this rank
  std::vector<int32_t> table_;  // [P, E]
  LoadTable loads_;
};

}  // namespace megaflux
