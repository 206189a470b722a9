// SplitTable: rows[source][instance], which source sends how many of its rows of an expert to which
// instance.
//
// A plan alone gives every instance a contiguous range of the global row order. Callers that move
// rows with a dispatcher of their own may place each row freely, as long as every instance gets
// exactly its quota: then a row should stay on its rank where it can. For each expert, with c_s
// rows of source s and quota q_i of instance i:
//  - column sums equal the quotas and row sums equal the sources' rows, always;
//  - an instance on rank s gets min(c_s, q_i) of its own rank's rows;
//  - what is left is split in proportion to the quotas that are left, source after source, so that
//    every source loads the links to every instance evenly (filling instances one after another
//    would send a whole source to one).
//
// Example, one expert, sources c = {6, 0, 4, 2}, instances on ranks 0 and 1 with quotas {8, 4}.
// Rank 0 keeps min(6, 8) = 6 rows, rank 1 has none. Left: sources {0, 0, 4, 2}, quotas {2, 4}.
// Source 2 gives 4 * 2/6 = 1.33 and 4 * 4/6 = 2.67 -> {1, 3}; source 3 the rest {1, 1}:
//   rows = {{6, 0}, {0, 0}, {1, 3}, {1, 1}}
// The rows of a source, in (token, k) order, go to the instances in ascending order: source 2 sends
// its first row to instance 0 and the next three to instance 1. The map depends on loads and plan
// only: it is the same on every rank and in every run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"

namespace megaflux {

class SplitTable {
 public:
  // Rebuilds the table, reusing the memory. The plan must be legal for the loads. Throws kBadInput
  // if it is empty, or the loads have no sources or do not fit it.
  void assign(const Plan& plan, const LoadTable& loads);

  // Rows of `source` that go to the expert's instances, in the order of Plan::instances_of(expert).
  std::span<const int32_t> rows(int32_t source, int32_t expert) const;
  // Position in Plan::instances_of(expert) of the instance that gets the source's row number
  // `ordinal` of this expert, counted in (token, k) order from 0. Throws kBadInput if the source
  // has fewer rows.
  int32_t instance_of(int32_t source, int32_t expert, int32_t ordinal) const;

 private:
  void split_expert(const Plan& plan, const LoadTable& loads, int32_t expert);

  int32_t num_ranks_ = 0;
  std::vector<int32_t> begin_;      // [E + 1] instances before expert e
  std::vector<int32_t> rows_;       // expert after expert: [P, instances of e]
  std::vector<int32_t> left_;       // scratch, quota that is left of each instance of one expert
  std::vector<int64_t> remainder_;  // scratch, of the proportional shares of one source
};

}  // namespace megaflux
