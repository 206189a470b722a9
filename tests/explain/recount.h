// A plan counted anew from its definitions, in plain loops, so that claims about it can be checked
// without the code that makes them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "explain/step_facts.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"
#include "megaflux/plan/planner.h"

namespace megaflux::explain {

class Recount {
 public:
  Recount(const PlanConfig& config, const LoadTable& loads, const Plan& plan)
      : config_(config), loads_(loads), plan_(plan) {
    const PlanDims dims = plan.dims();
    units_ = config.dims.block_rows / dims.block_rows;
    load.assign(dims.num_ranks, 0);
    owned = fixed = charged = used = load;
    for (int32_t e = 0; e < dims.num_experts; ++e) {
      fixed[config.owner_of[e]] += blocks(e);
      owned[owner(e)] += blocks(e);
      for (const Instance& i : plan.instances_of(e)) {
        load[i.rank] += i.num_blocks;
        charged[i.rank] += i.num_blocks;
        if (i.slot < 0) continue;
        ++used[i.rank];
        charged[owner(e)] += lambda();
      }
    }
  }

  int64_t blocks(int32_t e) const {
    const int64_t beta = plan_.dims().block_rows;
    return (loads_.totals()[e] + beta - 1) / beta;
  }
  int32_t owner(int32_t e) const { return plan_.owner_of()[e]; }
  int64_t lambda() const {
    return config_.objective == Objective::kBackward ? int64_t{config_.lambda_blocks} * units_ : 0;
  }
  bool is_active(int32_t rank) const { return config_.active.empty() || config_.active[rank] != 0; }
  bool are_together(int32_t a, int32_t b) const {
    return config_.domain_of.empty() || config_.domain_of[a] == config_.domain_of[b];
  }
  // Active ranks of the domain of `rank`.
  std::vector<int32_t> domain(int32_t rank) const {
    std::vector<int32_t> ranks;
    for (int32_t r = 0; r < plan_.dims().num_ranks; ++r) {
      if (is_active(r) && are_together(r, rank)) ranks.push_back(r);
    }
    return ranks;
  }
  int64_t finish(int32_t rank, int64_t of_blocks) const {
    const int64_t base =
        config_.base_blocks.empty() ? 0 : int64_t{config_.base_blocks[rank]} * units_;
    const int64_t speed = config_.speed.empty() ? 1024 : config_.speed[rank];
    return ((base + of_blocks) * 1024 + speed - 1) / speed;
  }
  int64_t finish(int32_t rank) const { return finish(rank, charged[rank]); }
  int64_t domain_max(int32_t rank) const {
    int64_t most = 0;
    for (const int32_t r : domain(rank)) most = std::max(most, finish(r));
    return most;
  }
  // The least T by which the domain's ranks can take all its blocks, one T after the other.
  int64_t tau(int32_t rank) const {
    const std::vector<int32_t> ranks = domain(rank);
    int64_t total = 0;
    for (const int32_t r : ranks) total += fixed[r];
    for (int64_t time = 0;; ++time) {
      int64_t room = 0;
      for (const int32_t r : ranks) {
        const int64_t base =
            config_.base_blocks.empty() ? 0 : int64_t{config_.base_blocks[r]} * units_;
        const int64_t speed = config_.speed.empty() ? 1024 : config_.speed[r];
        room += std::max<int64_t>(0, time * speed / 1024 - base);
      }
      if (room >= total) return time;
    }
  }
  bool holds(int32_t e, int32_t rank) const {
    for (const Instance& i : plan_.instances_of(e)) {
      if (i.rank == rank) return true;
    }
    return false;
  }
  int64_t on(int32_t e, int32_t rank) const {
    for (const Instance& i : plan_.instances_of(e)) {
      if (i.rank == rank) return i.num_blocks;
    }
    return 0;
  }
  bool is_budgeted() const {
    return config_.planner != PlannerKind::kLlep && config_.planner != PlannerKind::kMoonep &&
           config_.planner != PlannerKind::kBroadcast;
  }
  bool has_slot(int32_t rank) const {
    return !is_budgeted() || used[rank] < plan_.dims().replica_slots;
  }
  bool has_room(int32_t rank, int64_t before) const {
    return finish(rank, charged[rank] + 1) < before;
  }
  // Least blocks of a fresh replica that the planner honours: any number of its blocks, the last
  // and perhaps partly filled one among them, has min_rows_per_replica rows.
  int64_t least(int32_t e) const {
    if (is_baseline(config_.planner)) return 1;
    const int64_t beta = plan_.dims().block_rows;
    const int64_t last = loads_.totals()[e] - (blocks(e) - 1) * beta;
    int64_t count = 1;
    while (last + (count - 1) * beta < config_.min_rows_per_replica) ++count;
    return config_.planner == PlannerKind::kQuota
               ? count
               : std::max<int64_t>(count, config_.min_copy_blocks);
  }
  int64_t least_kept() const {
    return config_.planner == PlannerKind::kQuota || config_.planner == PlannerKind::kUltraep;
  }
  // `size` blocks of `e` from its owner to a new replica on `host`, both then before `time`.
  bool helps(int32_t e, int32_t host, int64_t size, int64_t time, int64_t price) const {
    const int32_t from = owner(e);
    return host != from && is_active(host) && are_together(host, from) && has_slot(host) &&
           !holds(e, host) && size >= std::max(least(e), price + 1) &&
           size <= on(e, from) - least_kept() &&
           finish(from, charged[from] + price - size) < time &&
           finish(host, charged[host] + size) < time;
  }
  bool any_helps(int32_t e, int64_t time, int64_t price) const {
    for (int32_t host = 0; host < plan_.dims().num_ranks; ++host) {
      for (int64_t size = 1; size <= blocks(e); ++size) {
        if (helps(e, host, size, time, price)) return true;
      }
    }
    return false;
  }
  // `size` blocks of `e` from `rank` to an instance that is there, both then before `time`.
  bool shifts(int32_t e, int32_t rank, int32_t to, int64_t size, int64_t time) const {
    const int64_t kept = rank == owner(e) ? least_kept() : least(e);
    return rank != to && holds(e, rank) && holds(e, to) && is_active(to) && size >= 1 &&
           on(e, rank) - size >= kept && finish(rank, charged[rank] - size) < time &&
           finish(to, charged[to] + size) < time;
  }
  bool any_shifts(int32_t rank, int64_t time) const {
    for (int32_t e = 0; e < plan_.dims().num_experts; ++e) {
      for (int32_t to = 0; to < plan_.dims().num_ranks; ++to) {
        for (int64_t size = 1; size <= on(e, rank); ++size) {
          if (shifts(e, rank, to, size, time)) return true;
        }
      }
    }
    return false;
  }

  std::vector<int64_t> load, owned, fixed, charged, used;  // [P]

 private:
  const PlanConfig& config_;
  const LoadTable& loads_;
  const Plan& plan_;
  int64_t units_ = 1;
};

}  // namespace megaflux::explain
