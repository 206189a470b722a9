#include "explain/addition.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "megaflux/base/math.h"
#include "megaflux/plan/cost_model.h"

namespace megaflux::explain {
namespace {

bool has_slot(const StepFacts& facts, int32_t rank) {
  return !has_slot_budget(facts.config().planner) || facts.free_slots(rank) > 0;
}

// The size in [least, most] at which the later of owner and host finishes earliest.
Addition best_size(const StepFacts& facts, Addition addition, int64_t least, int64_t most,
                   int64_t lambda) {
  const int32_t owner = facts.experts[addition.expert].owner;
  const auto at = [&](int64_t blocks) {
    Addition sized = addition;
    sized.blocks = blocks;
    sized.owner_finish = facts.finish_with(owner, facts.charged(owner) + lambda - blocks);
    sized.host_finish = facts.finish_with(sized.rank, facts.charged(sized.rank) + blocks);
    return sized;
  };
  // The owner's finish falls with the size and the host's grows: the best is where they meet.
  int64_t low = least, high = most;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const Addition sized = at(middle);
    if (sized.owner_finish <= sized.host_finish) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  const Addition met = at(low), before = at(std::max(least, low - 1));
  return before.worse() <= met.worse() ? before : met;
}

void add_replica(std::vector<RankCost>& costs, int32_t owner, int32_t host, int64_t blocks,
                 bool is_fresh) {
  costs[owner].load_blocks -= blocks;
  costs[owner].owned_blocks -= blocks;
  costs[owner].copies_out += is_fresh;
  costs[owner].replicas_out += 1;
  costs[host].load_blocks += blocks;
  costs[host].copies_in += is_fresh;
  costs[host].replicas_in += 1;
}

}  // namespace

bool has_slot_budget(PlannerKind planner) {
  return planner != PlannerKind::kLlep && planner != PlannerKind::kMoonep &&
         planner != PlannerKind::kBroadcast;
}

int64_t least_kept(const PlanConfig& config) {
  const bool keeps =
      config.planner == PlannerKind::kQuota ||
      (config.planner == PlannerKind::kUltraep && !config.baselines.ultraep.owner_may_be_empty);
  return keeps ? 1 : 0;
}

Hosts hosts_before(const StepFacts& facts, int32_t owner, int64_t time) {
  Hosts hosts;
  for (const int32_t rank : facts.domain_of(owner).ranks) {
    if (rank == owner) continue;
    ++hosts.num_others;
    if (facts.finish_with(rank, facts.charged(rank) + 1) >= time) continue;
    ++hosts.num_with_room;
    hosts.num_with_room_and_slot += has_slot(facts, rank);
  }
  return hosts;
}

std::optional<Addition> best_addition(const StepFacts& facts, int32_t expert, int64_t time,
                                      Charge charge) {
  const ExpertFacts& fact = facts.experts[expert];
  const int64_t lambda = charge == Charge::kAll ? facts.lambda : 0;
  const int64_t least = std::max(fact.least_fresh, lambda + 1);
  const int64_t most = fact.kept - least_kept(facts.config());
  std::optional<Addition> best;
  if (least > most) return best;
  for (const int32_t rank : facts.domain_of(fact.owner).ranks) {
    if (rank == fact.owner || !has_slot(facts, rank) || facts.holds(expert, rank)) continue;
    const Addition found = best_size(facts, {.expert = expert, .rank = rank}, least, most, lambda);
    if (found.worse() >= time) continue;
    if (!best || found.worse() < best->worse()) best = found;
  }
  return best;
}

int64_t finish_with_addition(const StepFacts& facts, const Addition& addition) {
  const int32_t owner = facts.experts[addition.expert].owner;
  int64_t latest = addition.worse();
  for (const int32_t rank : facts.domain_of(owner).ranks) {
    if (rank == owner || rank == addition.rank) continue;
    latest = std::max(latest, facts.ranks[rank].finish);
  }
  return latest;
}

std::optional<Shift> find_shift(const StepFacts& facts, int32_t rank, int64_t time) {
  const int64_t needed = facts.charged(rank) - facts.capacity(rank, time - 1);
  for (int32_t e = 0; e < facts.plan.dims().num_experts; ++e) {
    const auto instances = facts.plan.instances_of(e);
    if (instances.size() < 2 || facts.experts[e].blocks == 0) continue;
    const auto own = std::find_if(instances.begin(), instances.end(),
                                  [&](const Instance& i) { return i.rank == rank; });
    if (own == instances.end()) continue;
    const int64_t kept = own->slot < 0 ? least_kept(facts.config()) : facts.experts[e].least_fresh;
    for (const Instance& other : instances) {
      if (other.rank == rank || !facts.ranks[other.rank].is_active) continue;
      const int64_t room = facts.capacity(other.rank, time - 1) - facts.charged(other.rank);
      if (needed >= 1 && needed <= own->num_blocks - kept && needed <= room) {
        return Shift{.expert = e, .to = other.rank, .blocks = needed};
      }
    }
  }
  return std::nullopt;
}

uint64_t predicted_ns(const StepFacts& facts, const Addition* addition) {
  const CostModel& cost = *facts.config().cost;
  const int64_t unit = facts.config().dims.block_rows / facts.block_rows;
  std::vector<RankCost> costs(facts.ranks.size());
  for (size_t rank = 0; rank < costs.size(); ++rank) {
    costs[rank].owned_blocks = costs[rank].load_blocks = facts.ranks[rank].owned_load;
  }
  for (const Move& move : facts.walk) {
    add_replica(costs, move.from, move.to, move.blocks, !move.is_resident);
  }
  if (addition != nullptr) {
    add_replica(costs, facts.experts[addition->expert].owner, addition->rank, addition->blocks,
                true);
  }
  std::vector<RankCost> active;
  for (size_t rank = 0; rank < costs.size(); ++rank) {
    if (!facts.ranks[rank].is_active) continue;
    RankCost own = costs[rank];
    own.finish_blocks =
        ceil_div(facts.finish_with(static_cast<int32_t>(rank), own.load_blocks), unit);
    own.load_blocks = ceil_div(own.load_blocks, unit);
    own.owned_blocks = ceil_div(own.owned_blocks, unit);
    active.push_back(own);
  }
  return layer_ns(cost, active);
}

}  // namespace megaflux::explain
