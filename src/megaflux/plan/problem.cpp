#include "megaflux/plan/problem.h"

#include <algorithm>

#include "megaflux/base/check.h"
#include "megaflux/plan/search/lanes.h"

namespace megaflux {

ProblemView DomainProblem::view() const {
  ProblemView view;
  static_cast<ProblemNumbers&>(view) = *this;
  view.base = base.data();
  view.speed = speed.data();
  view.fixed_load = fixed_load.data();
  view.first_owned = first_owned.data();
  view.owner = owner.data();
  view.blocks = blocks.data();
  view.least_fresh = least_fresh.data();
  view.least_present = least_present.data();
  view.resident = resident.data();
  return view;
}

int64_t DomainProblem::max_fixed_finish() const {
  const ProblemView problem = view();
  int64_t most = 0;
  for (int32_t r = 0; r < num_ranks; ++r) most = std::max(most, problem.finish(r, fixed_load[r]));
  return most;
}

ProblemBuilder::ProblemBuilder(const PlanConfig& config, int32_t block_rows)
    : config_(config), block_rows_(block_rows) {
  const int32_t num_ranks = config.dims.num_ranks;
  const int32_t num_experts = config.dims.num_experts;
  owned_begin_.assign(num_ranks + 1, 0);
  for (const int32_t owner : config.owner_of) ++owned_begin_[owner + 1];
  for (int32_t r = 0; r < num_ranks; ++r) owned_begin_[r + 1] += owned_begin_[r];
  owned_.resize(num_experts);
  std::vector<int32_t> next(owned_begin_.begin(), owned_begin_.end() - 1);
  for (int32_t e = 0; e < num_experts; ++e) owned_[next[config.owner_of[e]]++] = e;
  blocks_.assign(num_experts, 0);
  local_of_.assign(num_experts, -1);
  sort_keys_.reserve(num_experts);
  orphans_.reserve(num_experts);

  std::vector<int32_t> domain_ids(config.domain_of);
  if (domain_ids.empty()) domain_ids = {0};
  std::sort(domain_ids.begin(), domain_ids.end());
  domain_ids.erase(std::unique(domain_ids.begin(), domain_ids.end()), domain_ids.end());
  for (const int32_t id : domain_ids) {
    // Base work and lambda count blocks of dims.block_rows; the problem may count rows.
    const int32_t units = config.dims.block_rows / block_rows;
    DomainProblem problem;
    for (int32_t r = 0; r < num_ranks; ++r) {
      if (!config.domain_of.empty() && config.domain_of[r] != id) continue;
      if (!config.active.empty() && config.active[r] == 0) continue;
      problem.ranks.push_back(r);
      problem.base.push_back(config.base_blocks.empty() ? 0
                                                        : int64_t{config.base_blocks[r]} * units);
      problem.speed.push_back(config.speed.empty() ? 1024 : config.speed[r]);
      problem.is_uniform &= problem.base.back() == 0 && problem.speed.back() == 1024;
    }
    if (problem.ranks.empty()) continue;
    problem.num_ranks = static_cast<int32_t>(problem.ranks.size());
    problem.replica_slots = config.dims.replica_slots;
    problem.lambda_blocks =
        config.objective == Objective::kBackward ? config.lambda_blocks * units : 0;
    problem.has_least = config.min_copy_blocks > 1 || config.min_rows_per_replica > 1;
    problem.rank_words = ceil_div(problem.num_ranks, 64);
    for (const int32_t r : problem.ranks) {
      problem.most_experts += owned_begin_[r + 1] - owned_begin_[r];
    }
    for (std::vector<int32_t>* column : {&problem.experts, &problem.owner, &problem.blocks,
                                         &problem.least_fresh, &problem.least_present}) {
      column->reserve(problem.most_experts);
    }
    problem.resident.reserve(static_cast<size_t>(problem.most_experts) * problem.rank_words);
    problem.fixed_load.assign(problem.num_ranks, 0);
    problem.first_owned.assign(problem.num_ranks + 1, 0);
    problems_.push_back(std::move(problem));
  }
}

bool ProblemBuilder::measure(const LoadTable& loads) {
  const int32_t num_experts = config_.dims.num_experts;
  MF_CHECK(loads.num_experts() == num_experts, "loads: ", loads.num_experts(),
           " experts, the planner was made for ", num_experts);
  MF_CHECK(loads.num_ranks() == config_.dims.num_ranks, "loads: ", loads.num_ranks(),
           " source ranks, the planner was made for ", config_.dims.num_ranks);
  orphans_.clear();
  for (int32_t e = 0; e < num_experts; ++e) {
    blocks_[e] = loads.blocks(e, block_rows_);
    if (blocks_[e] > 0 && !config_.active.empty() && config_.active[config_.owner_of[e]] == 0) {
      orphans_.push_back(e);
    }
  }
  if (!orphans_.empty()) return false;
  for (DomainProblem& problem : problems_) measure_domain(problem);
  return true;
}

void ProblemBuilder::measure_domain(DomainProblem& problem) const {
  problem.total_blocks = 0;
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    const int32_t rank = problem.ranks[r];
    int32_t load = 0;
    for (int32_t i = owned_begin_[rank]; i < owned_begin_[rank + 1]; ++i)
      load += blocks_[owned_[i]];
    problem.fixed_load[r] = load;
    problem.total_blocks += load;
  }
  problem.tau = least_common_finish(SingleLane{}, problem.view(), problem.max_fixed_finish());
  problem.accepted = scaled_up(problem.tau, config_.slack_ppm);
}

void ProblemBuilder::arrange(const LoadTable& loads, std::span<const int32_t> resident, size_t d) {
  DomainProblem& problem = problems_[d];
  problem.most_owned = 0;
  problem.experts.clear();
  problem.owner.clear();
  problem.blocks.clear();
  problem.least_fresh.clear();
  problem.least_present.clear();
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    const int32_t rank = problem.ranks[r];
    sort_keys_.clear();
    for (int32_t i = owned_begin_[rank]; i < owned_begin_[rank + 1]; ++i) {
      const int32_t e = owned_[i];
      if (blocks_[e] == 0) continue;
      sort_keys_.push_back(uint64_t{~static_cast<uint32_t>(blocks_[e])} << 32 | uint32_t(e));
    }
    std::sort(sort_keys_.begin(), sort_keys_.end());  // a total order: no two keys are equal
    for (const uint64_t key : sort_keys_) {
      const int32_t e = static_cast<int32_t>(key & 0xffffffffu);
      const int32_t last_rows = loads.totals()[e] - (blocks_[e] - 1) * block_rows_;
      const int32_t least = least_replica(last_rows, config_.min_rows_per_replica, block_rows_);
      problem.experts.push_back(e);
      problem.owner.push_back(r);
      problem.blocks.push_back(blocks_[e]);
      problem.least_present.push_back(least);
      problem.least_fresh.push_back(std::max(least, config_.min_copy_blocks));
    }
    problem.first_owned[r + 1] = static_cast<int32_t>(problem.experts.size());
    problem.most_owned =
        std::max(problem.most_owned, problem.first_owned[r + 1] - problem.first_owned[r]);
  }
  problem.num_experts = static_cast<int32_t>(problem.experts.size());
  problem.has_resident = false;
  if (!resident.empty()) mark_resident(resident, problem);
}

void ProblemBuilder::mark_resident(std::span<const int32_t> resident, DomainProblem& problem) {
  const int32_t s = problem.replica_slots;
  std::fill(local_of_.begin(), local_of_.end(), -1);
  for (int32_t e = 0; e < problem.num_experts; ++e) local_of_[problem.experts[e]] = e;
  problem.resident.assign(static_cast<size_t>(problem.num_experts) * problem.rank_words, 0);
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    for (int32_t slot = 0; slot < s; ++slot) {
      const int32_t held = resident[static_cast<size_t>(problem.ranks[r]) * s + slot];
      const int32_t e = held < 0 ? -1 : local_of_[held];
      if (e < 0 || problem.owner[e] == r) continue;
      problem.resident[static_cast<size_t>(e) * problem.rank_words + r / 64] |= uint64_t{1}
                                                                                << (r % 64);
      problem.has_resident = true;
    }
  }
}

}  // namespace megaflux
