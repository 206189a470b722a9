// LPLB as a planner. EPLB without spare places orders the experts; on every rank those with most
// weight are replicated, one replica each, to the rank that the topology names; and a linear
// program a step shares the rows of every replicated expert between its two instances.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "megaflux/base/check.h"
#include "megaflux/plan/baselines/eplb.h"
#include "megaflux/plan/baselines/lplb.h"
#include "megaflux/plan/baselines/placement_planner.h"

namespace megaflux {

std::vector<int32_t> lplb_topology(int32_t num_ranks, int32_t num_columns) {
  if (num_ranks == 8 && num_columns == 2) {
    return {3, 6, 0, 7, 1, 4, 2, 5, 7, 0, 4, 1, 5, 2, 6, 3};
  }
  std::vector<int32_t> source_of;
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    for (int32_t d = 0; d < num_columns; ++d) {
      source_of.push_back((rank + num_ranks - 1 - d) % num_ranks);
    }
  }
  return source_of;
}

namespace {

// The replicated experts that one variable of the linear program moves.
struct Group {
  int32_t domain = 0;
  int32_t owner = 0;  // positions among the domain's ranks
  int32_t host = 0;
  std::vector<int32_t> experts;
};

class LplbPlanner final : public PlacementPlanner {
 public:
  explicit LplbPlanner(PlanConfig config) : PlacementPlanner(std::move(config)) {}

 private:
  struct Topology {
    int32_t num_columns = 0;
    std::vector<int32_t> source_of;  // [g, D]
  };

  void begin_placement() final {
    groups_.clear();
    domain_ranks_.clear();
  }
  void place_domain(const DomainExperts& domain, std::vector<PlacedCopy>& copies) final;
  void split(const LoadTable& loads, const Placement& placement, std::span<int32_t> rows) final;
  Topology topology(int32_t num_ranks) const;
  void replicate(const DomainExperts& domain, std::span<const std::vector<int32_t>> by_rank,
                 std::vector<PlacedCopy>& copies);
  void split_domain(int32_t domain, const LoadTable& loads, const Placement& placement,
                    std::span<int32_t> rows);
  void keep_rows(const Group& group, int64_t kept, const LoadTable& loads,
                 const Placement& placement, std::span<int32_t> rows);
  void keep_share(const Group& group, float share, const LoadTable& loads,
                  const Placement& placement, std::span<int32_t> rows);

  std::vector<Group> groups_;                       // domain after domain
  std::vector<std::vector<int32_t>> domain_ranks_;  // ids
};

LplbPlanner::Topology LplbPlanner::topology(int32_t num_ranks) const {
  const LplbOptions& options = config().baselines.lplb;
  const int32_t slots = config().dims.replica_slots;
  if (!options.source_of.empty() && options.num_columns <= slots &&
      options.source_of.size() == static_cast<size_t>(num_ranks) * options.num_columns) {
    return {options.num_columns, options.source_of};
  }
  const int32_t columns = num_ranks == 8 && slots >= 2 ? 2 : std::min(slots, num_ranks - 1);
  return {columns, lplb_topology(num_ranks, columns)};
}

// The i-th of a rank's replicated experts is its (i mod D)-th; those of one (rank, d) share a
// variable.
void LplbPlanner::replicate(const DomainExperts& domain,
                            std::span<const std::vector<int32_t>> by_rank,
                            std::vector<PlacedCopy>& copies) {
  const auto num_ranks = static_cast<int32_t>(domain.ranks.size());
  const Topology topology = this->topology(num_ranks);
  if (topology.num_columns == 0) return;
  const int32_t depth = config().dims.replica_slots / topology.num_columns;
  for (int32_t host = 0; host < num_ranks; ++host) {
    for (int32_t d = 0; d < topology.num_columns; ++d) {
      const int32_t owner = topology.source_of[host * topology.num_columns + d];
      Group group{.domain = static_cast<int32_t>(domain_ranks_.size()) - 1,
                  .owner = owner,
                  .host = host,
                  .experts = {}};
      for (int32_t c = 0; c < depth; ++c) {
        const size_t i = static_cast<size_t>(c) * topology.num_columns + d;
        if (i >= by_rank[owner].size()) break;
        group.experts.push_back(by_rank[owner][i]);
        copies.push_back({.expert = by_rank[owner][i], .rank = domain.ranks[host]});
      }
      groups_.push_back(std::move(group));
    }
  }
}

void LplbPlanner::place_domain(const DomainExperts& domain, std::vector<PlacedCopy>& copies) {
  const auto num_ranks = static_cast<int32_t>(domain.ranks.size());
  const auto num_experts = static_cast<int32_t>(domain.experts.size());
  domain_ranks_.emplace_back(domain.ranks.begin(), domain.ranks.end());
  const std::vector<int32_t> places =
      rearrange_eplb(domain.weights, {.num_places = num_experts, .num_gpus = num_ranks});
  std::vector<std::vector<int32_t>> by_rank(num_ranks);
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    const auto begin = places.begin() + first_place(num_experts, num_ranks, rank);
    const auto end = places.begin() + first_place(num_experts, num_ranks, rank + 1);
    std::vector<int32_t> own(begin, end);
    std::sort(own.begin(), own.end(), [&](int32_t a, int32_t b) {
      if (domain.weights[a] != domain.weights[b]) return domain.weights[a] > domain.weights[b];
      return a < b;
    });
    for (const int32_t e : own) {
      by_rank[rank].push_back(domain.experts[e]);
      copies.push_back({.expert = domain.experts[e], .rank = domain.ranks[rank]});
    }
  }
  replicate(domain, by_rank, copies);
}

// Whole rows of a group: the kept ones are spread over its experts in proportion.
void LplbPlanner::keep_rows(const Group& group, int64_t kept, const LoadTable& loads,
                            const Placement& placement, std::span<int32_t> rows) {
  int64_t total = 0;
  for (const int32_t e : group.experts) total += loads.totals()[e];
  int64_t before = 0;
  for (const int32_t e : group.experts) {
    const int32_t own = loads.totals()[e];
    if (total == 0) continue;
    const int64_t stay = kept * (before + own) / total - kept * before / total;
    before += own;
    rows[placement.copy_begin[e]] = static_cast<int32_t>(stay);
    rows[placement.copy_begin[e] + 1] = static_cast<int32_t>(own - stay);
  }
}

// Every source keeps floor(share x its rows) at the owner, as LPLB's token map does, in fp32.
void LplbPlanner::keep_share(const Group& group, float share, const LoadTable& loads,
                             const Placement& placement, std::span<int32_t> rows) {
  for (const int32_t e : group.experts) {
    int32_t stay = 0;
    for (int32_t source = 0; source < loads.num_ranks(); ++source) {
      const int32_t own = loads.rows(source, e);
      stay += std::min(own, static_cast<int32_t>(share * static_cast<float>(own)));
    }
    rows[placement.copy_begin[e]] = stay;
    rows[placement.copy_begin[e] + 1] = loads.totals()[e] - stay;
  }
}

void LplbPlanner::split_domain(int32_t domain, const LoadTable& loads, const Placement& placement,
                               std::span<int32_t> rows) {
  const std::vector<int32_t>& ranks = domain_ranks_[domain];
  LplbProblem problem{.fixed = std::vector<int64_t>(ranks.size(), 0), .variables = {}};
  int64_t scale = 1;
  for (int32_t e = 0; e < loads.num_experts(); ++e) {
    const auto rank = std::lower_bound(ranks.begin(), ranks.end(), placement.owner_of[e]);
    if (rank == ranks.end() || *rank != placement.owner_of[e]) continue;
    scale = std::max<int64_t>(scale, loads.totals()[e]);
    if (placement.copies_of(e).size() > 1) continue;
    problem.fixed[rank - ranks.begin()] += loads.totals()[e];
    rows[placement.copy_begin[e]] = loads.totals()[e];
  }
  std::vector<const Group*> groups;
  for (const Group& group : groups_) {
    if (group.domain != domain) continue;
    LplbVariable variable{.owner = group.owner, .host = group.host};
    for (const int32_t e : group.experts) variable.rows += loads.totals()[e];
    groups.push_back(&group);
    problem.variables.push_back(variable);
  }
  if (config().baselines.lplb.solver == LplbSolver::kExact) {
    const std::vector<int64_t> kept = solve_lplb_exact(problem);
    for (size_t i = 0; i < kept.size(); ++i) {
      keep_rows(*groups[i], kept[i], loads, placement, rows);
    }
    return;
  }
  const LplbShares shares = solve_lplb_interior_point(problem, scale);
  for (size_t i = 0; i < groups.size(); ++i) {
    keep_share(*groups[i], shares.kept[i], loads, placement, rows);
  }
}

void LplbPlanner::split(const LoadTable& loads, const Placement& placement,
                        std::span<int32_t> rows) {
  std::fill(rows.begin(), rows.end(), 0);
  for (size_t d = 0; d < domain_ranks_.size(); ++d) {
    split_domain(static_cast<int32_t>(d), loads, placement, rows);
  }
}

}  // namespace

std::unique_ptr<Planner> make_lplb_planner(PlanConfig config) {
  return std::make_unique<LplbPlanner>(std::move(config));
}

}  // namespace megaflux
