// StepFacts: a planned step in numbers that explanations are made of. All loads and times are in
// the plan's blocks (rows for planners in rows), other work, speeds and lambda included as the
// objective counts them.
//
// Example, P = 2, s = 1, blocks of 1 row, owners {0, 0, 1}, rows {5, 1, 1}: tau 4. Rank 0 has
// fixed_load 6 and owned_load 6, load 4 once 2 rows of expert 0 are on rank 1, whose load goes from
// 1 to 3. The walk is {expert 0, from 0 to 1, 2 blocks, from_load 4, to_load 3}.
#pragma once

#include <cstdint>
#include <vector>

#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"
#include "megaflux/plan/planner.h"

namespace megaflux::explain {

struct StepInput {
  PlanConfig config;
  LoadTable loads;
  std::vector<int32_t> resident;  // [P s], or empty
};

// One NVLink domain with at least one active rank; replicas never leave it.
struct DomainFacts {
  int32_t id = 0;              // as the configuration has it
  std::vector<int32_t> ranks;  // active ones, ascending
  int64_t total_blocks = 0;
  int64_t tau = 0;       // no plan finishes earlier
  int64_t accepted = 0;  // ceil((1 + slack) tau)
  int64_t max_fixed = 0;
  int64_t max = 0;
  int32_t slowest = -1;  // the lowest of the ranks that finish at max
};

struct RankFacts {
  bool is_active = true;
  int32_t domain = -1;  // index into domains, -1 = inactive
  int64_t base = 0;     // other work
  int64_t speed = 1024;
  int64_t fixed_load = 0;  // with the owners of the configuration, no replicas
  int64_t owned_load = 0;  // with the owners of the plan, no replicas
  int64_t load = 0;        // with the plan
  int64_t fixed_rows = 0;
  int64_t rows = 0;
  int64_t fixed_finish = 0;
  int64_t owned_finish = 0;
  int64_t finish = 0;
  int32_t slots_used = 0;
  int32_t replicas_out = 0;  // replicas of its experts on other ranks
};

struct ExpertFacts {
  int64_t rows = 0;
  int64_t blocks = 0;
  int32_t owner_before = 0;  // of the configuration
  int32_t owner = 0;         // of the plan
  int64_t kept = 0;          // blocks that the owner computes
  int32_t replicas = 0;
  int64_t least_fresh = 1;  // least blocks of a replica that has to be copied; 1 for rivals
  int64_t moved() const { return blocks - kept; }
  bool is_replicated() const { return replicas > 0; }
};

enum class MoveKind : uint8_t {
  kOwner,    // the expert itself goes to another rank (eplb, lplb)
  kReplica,  // a part of its blocks goes to a replica
};

// One step of the walk from fixed placement to the plan. The order is that of the telling: owners
// first, then replicas of the rank that is furthest above the bound, most blocks first.
struct Move {
  MoveKind kind = MoveKind::kReplica;
  int32_t expert = 0;
  int32_t from = 0;
  int32_t to = 0;
  int64_t blocks = 0;
  int64_t rows = 0;
  int64_t from_load = 0;  // blocks on the two ranks after it
  int64_t to_load = 0;
  bool is_resident = false;  // the slot holds the expert already
};

struct StepFacts {
  StepInput input;  // the owner table is listed
  Plan plan;        // empty if the report has orphans
  PlanReport report;
  int32_t block_rows = 1;  // of the plan
  int64_t lambda = 0;      // in blocks of the plan; 0 unless the objective is backward
  double kappa = 1;
  double imbalance_fixed = 1;  // rows, max / mean over the active ranks
  double imbalance = 1;
  std::vector<DomainFacts> domains;
  std::vector<RankFacts> ranks;      // [P]
  std::vector<ExpertFacts> experts;  // [E]
  std::vector<Move> walk;

  bool has_plan() const { return report.has_plan(); }
  const PlanConfig& config() const { return input.config; }
  // The domain of an active rank.
  const DomainFacts& domain_of(int32_t rank) const { return domains[ranks[rank].domain]; }
  int64_t max_finish() const;
  int64_t max_tau() const;
  // Blocks that a rank is charged: its load, and lambda for each replica of its experts.
  int64_t charged(int32_t rank) const {
    return ranks[rank].load + lambda * ranks[rank].replicas_out;
  }
  // When `rank` finishes if it is charged `blocks`, and the most it can be charged to finish by
  // `time`.
  int64_t finish_with(int32_t rank, int64_t blocks) const;
  int64_t capacity(int32_t rank, int64_t time) const;
  // Slots of `rank` that hold nothing, out of the plan's.
  int32_t free_slots(int32_t rank) const {
    return plan.dims().replica_slots - ranks[rank].slots_used;
  }
  bool holds(int32_t expert, int32_t rank) const;
};

// Plans the step and gathers its facts. Throws kBadInput like make_planner and Planner::plan.
StepFacts gather_facts(StepInput input);

// The bound if all active ranks were one domain, and if all ranks were active: what domains and
// inactive ranks cost.
int64_t tau_without_domains(const StepFacts& facts);
int64_t tau_with_all_ranks(const StepFacts& facts);

}  // namespace megaflux::explain
