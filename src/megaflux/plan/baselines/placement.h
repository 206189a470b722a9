// Placement: where a rival puts every expert and its copies, whoever owns it now. The first copy of
// an expert is its owner from then on; copies beyond it are replicas, and copies of one expert on
// one rank are one instance of the plan.
//
// Example, E = 3, P = 2, three places a rank, {0, 2, 0} on rank 0 and {1, 0, 2} on rank 1:
//   copy_begin = {0, 3, 4, 6}, copy_rank = {0, 0, 1,  1,  0, 1}, owner_of = {0, 1, 0}
//   Expert 0 counts three copies (two thirds of its rows go to rank 0), and has one replica.
//   slots_needed 2: rank 1 holds replicas of experts 0 and 2. From owners {0, 0, 1}, the owners of
//   experts 1 and 2 moved: two weight transfers beside the two replicas.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/moe/load_table.h"
#include "megaflux/plan/baselines/baseline_config.h"

namespace megaflux {

struct PlacedCopy {
  int32_t expert = 0;
  int32_t rank = 0;
};

struct Placement {
  std::vector<int32_t> owner_of;    // [E]
  std::vector<int32_t> copy_begin;  // [E + 1]
  std::vector<int32_t> copy_rank;   // copies of each expert in the order of their places

  // `copies` are in the order of their places. An expert without any stays with its owner, as its
  // only copy.
  void assign(std::span<const PlacedCopy> copies, std::span<const int32_t> owners);

  std::span<const int32_t> copies_of(int32_t expert) const {
    return {copy_rank.data() + copy_begin[expert], copy_rank.data() + copy_begin[expert + 1]};
  }
};

// Most replicas that a rank holds.
int32_t slots_needed(const Placement& placement, int32_t num_ranks);
// Experts whose owner is not that of `owner_of`.
int32_t moved_owners(const Placement& placement, std::span<const int32_t> owner_of);

// Rows of every copy, `rows` [copies] is overwritten. `num_nodes` is for kNearest.
void split_rows(const Placement& placement, const LoadTable& loads, CopySelection selection,
                int32_t num_nodes, std::span<int32_t> rows);

}  // namespace megaflux
