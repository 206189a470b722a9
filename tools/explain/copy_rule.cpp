#include "explain/copy_rule.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "megaflux/plan/baselines/eplb.h"

namespace megaflux::explain {

std::optional<CopyRule> copy_rule_of(const StepFacts& facts, int32_t expert) {
  const PlanConfig& config = facts.config();
  if (config.planner != PlannerKind::kEplb || config.baselines.eplb.num_nodes > 1) return {};
  const DomainFacts& domain = facts.domain_of(facts.experts[expert].owner_before);
  std::vector<int64_t> weights;
  size_t position = 0;
  for (size_t e = 0; e < facts.experts.size(); ++e) {
    const int32_t owner = facts.experts[e].owner_before;
    if (!std::binary_search(domain.ranks.begin(), domain.ranks.end(), owner)) continue;
    if (e == static_cast<size_t>(expert)) position = weights.size();
    weights.push_back(config.baselines.history.empty() ? facts.experts[e].rows
                                                       : config.baselines.history[e]);
  }
  const auto num_ranks = static_cast<int32_t>(domain.ranks.size());
  const auto places = rearrange_eplb(weights, {.num_places = static_cast<int32_t>(weights.size()) +
                                                             num_ranks * config.dims.replica_slots,
                                               .num_gpus = num_ranks});
  std::vector<int32_t> copies(weights.size(), 0);
  for (const int32_t e : places) ++copies[e];
  CopyRule rule{.copies = copies[position],
                .share = static_cast<double>(weights[position]) / copies[position],
                .least_last = std::numeric_limits<double>::infinity()};
  for (size_t e = 0; e < weights.size(); ++e) {
    if (copies[e] < 2) continue;
    rule.least_last = std::min(rule.least_last, static_cast<double>(weights[e]) / (copies[e] - 1));
  }
  return rule;
}

}  // namespace megaflux::explain
