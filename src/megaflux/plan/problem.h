// DomainProblem: what one NVLink domain has to decide, on dense indices. Replicas never leave a
// domain, so each domain is solved on its own.
//
// Example: P = 3, E = 4, owners {0, 0, 2, 2}, blocks {5, 7, 0, 3}, rank 1 inactive, one domain.
//   ranks       = {0, 2}      without inactive ranks: local rank 0 is rank 0, local rank 1 rank 2
//   experts     = {1, 0, 3}   those with rows, by (owner, blocks descending, id ascending)
//   first_owned = {0, 2, 3}   local rank 0 owns local experts 0 and 1, local rank 1 owns 2
//   blocks      = {7, 5, 3}
//   fixed_load  = {12, 3}     total 15, tau = ceil(15 / 2) = 8
//
// Finish time of a rank with l blocks: f = ceil((base + l) * 1024 / speed); base = work it has
// anyway. Its capacity at T is the most l with f <= T: floor(T * speed / 1024) - base, at least 0.
// Without base and speed f = l and the capacity is T.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/moe/load_table.h"
#include "megaflux/plan/planner.h"
#include "megaflux/plan/search/problem_view.h"

namespace megaflux {

struct DomainProblem : ProblemNumbers {
  int32_t most_experts = 0;  // bound of num_experts in every step: all experts of its ranks

  std::vector<int32_t> ranks;          // [R] ids, ascending
  std::vector<int64_t> base;           // [R]
  std::vector<int64_t> speed;          // [R]
  std::vector<int32_t> fixed_load;     // [R] blocks of the owned experts
  std::vector<int32_t> first_owned;    // [R + 1]
  std::vector<int32_t> experts;        // ids
  std::vector<int32_t> owner;          // local rank of each expert
  std::vector<int32_t> blocks;         // b_e
  std::vector<int32_t> least_fresh;    // least blocks of a replica that must be copied
  std::vector<int32_t> least_present;  // least blocks of a replica that is resident
  std::vector<uint64_t> resident;  // [num_experts, rank_words] ranks that hold it in a slot already

  // The same as the searches see it, until the next step or move of this object.
  ProblemView view() const;
  int64_t finish(int32_t rank, int32_t load) const { return view().finish(rank, load); }
  int64_t max_fixed_finish() const;
};

// Builds the problems of a configuration's domains, step after step, in the same memory.
class ProblemBuilder {
 public:
  // `config` has passed check_config and outlives the builder; its owner table is not empty.
  // `block_rows` is the unit of planning.
  ProblemBuilder(const PlanConfig& config, int32_t block_rows);

  // Counts blocks, fixed loads, tau and the accepted finish of every domain; no searches can run
  // yet. Returns false if there are orphans, which are then in orphans().
  bool measure(const LoadTable& loads);
  // Completes domain `d` for searching: sorted experts, least sizes, resident copies.
  void arrange(const LoadTable& loads, std::span<const int32_t> resident, size_t d);

  std::span<const DomainProblem> domains() const { return problems_; }
  std::span<const int32_t> blocks() const { return blocks_; }  // [E], b_e
  std::span<const int32_t> orphans() const { return orphans_; }

 private:
  void measure_domain(DomainProblem& problem) const;
  void mark_resident(std::span<const int32_t> resident, DomainProblem& problem);

  const PlanConfig& config_;
  int32_t block_rows_;
  std::vector<int32_t> owned_begin_;  // [P + 1]
  std::vector<int32_t> owned_;        // [E] experts by (owner, id)
  std::vector<DomainProblem> problems_;
  std::vector<int32_t> blocks_;
  std::vector<int32_t> orphans_;
  std::vector<uint64_t> sort_keys_;
  std::vector<int32_t> local_of_;  // [E] local index in the domain being arranged, -1 = none
};

}  // namespace megaflux
