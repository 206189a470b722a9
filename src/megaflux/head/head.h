// Head: everything between the router's choice and the work of a layer. From the exact routing of
// the step, every rank learns all counts, makes the same plan on its own, and gets its work list.
//
//   RoutingView -> gather_loads -> LoadTable -> Planner -> Plan -> WorkList
//
// The layer takes loads, plan and work list as data and never sees the head; it finds rows through
// the route lists that the head left in symmetric memory (comm/row_map.h). They stand until the
// next head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "megaflux/comm/rank_context.h"
#include "megaflux/comm/row_map.h"
#include "megaflux/head/gather_loads.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"
#include "megaflux/moe/routing.h"
#include "megaflux/moe/work_list.h"
#include "megaflux/plan/planner.h"

namespace megaflux {

// Fixed at creation, equal on all ranks.
struct HeadConfig {
  PlanConfig plan;            // E, P, s, beta and all else that enters the decision
  int32_t topk = 0;           // K
  int32_t max_tokens = 0;     // T_max, tokens a rank
  uint64_t session_hash = 0;  // of what else must agree: layer shapes, capacities, executor
};

// Hash of all of HeadConfig: what every entry of the session carries as its config hash.
uint64_t head_config_hash(const HeadConfig& config);
// Most rows of all ranks in one step: P T_max K, at most 2^31 - 1. It follows from what the hash
// covers, and decides with it how a DevicePlanner searches.
int64_t max_step_rows(const HeadConfig& config);
// Words an entry must have room for: ThreadsConfig::payload_words.
int32_t head_payload_words(const HeadConfig& config);
// Places of the route lists in a group's heap.
RouteFields add_head_fields(Layout& layout, const HeadConfig& config);

// One step of one rank. All but the routing must be equal on all ranks.
struct HeadInput {
  RoutingView routing = {};
  int32_t layer = 0;
  std::span<const int32_t> resident = {};  // [P s] expert each slot holds, -1 = none; or empty
  uint64_t weight_version = 0;             // of the layer's weights
  std::span<const std::byte> outside_plan =
      {};  // bytes of a plan made elsewhere; empty = plan here
  PartOrder order = PartOrder::kOwnedFirst;
};

class Head {
 public:
  // `routes` from add_head_fields. Throws kBadInput naming the field, the value and the limit.
  Head(HeadConfig config, const RouteFields& routes);
  // With a planner of the caller's, one a rank; it must answer to config.plan.
  Head(HeadConfig config, const RouteFields& routes, std::unique_ptr<Planner> planner);

  // Collective, compute role: one launch, which needs no exit. Throws AgreedError on every rank
  // alike if a rank's routing is bad, ranks disagree, or the outside plan is illegal for these
  // loads; the group stays usable. Experts without a living owner are an outcome: report().orphans,
  // and an empty plan and work list.
  void step(RankContext& ctx, const HeadInput& input);

  const HeadConfig& config() const { return config_; }
  uint64_t config_hash() const { return config_hash_; }
  // Results of the last step, valid until the next one.
  const LoadTable& loads() const { return gatherer_.loads(); }
  const Plan& plan() const { return plan_; }
  const PlanReport& report() const { return report_; }
  const WorkList& work_list() const { return work_; }

 private:
  void decide(const HeadInput& input);

  HeadConfig config_;
  uint64_t config_hash_;
  LoadGatherer gatherer_;
  std::unique_ptr<Planner> planner_;
  Plan plan_;
  PlanReport report_;
  WorkList work_;
};

}  // namespace megaflux
