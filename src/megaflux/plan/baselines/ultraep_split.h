// UltraEP's split of an expert's rows over its instances, source by source ("locality-aware", its
// default). Every source rounds on its own, so instances do not get exactly their quotas: the
// realised loads differ from the plan's.
//
// An instance first takes what its own rank sends, up to its quota. The rest of a source is shared
// over the instances on other ranks in proportion to what their quotas have left: floors, then one
// row each by largest remainder, ties to the lower rank.
//
// Example, an expert with sources c = {3, 3, 3, 3} and instances on ranks 0 and 1, quotas {6, 6}:
// rank 0 and rank 1 keep their three rows, 3 and 3 are left. Sources 2 and 3 both share their three
// rows as {1.5, 1.5} -> {2, 1}, so rank 0 computes 7 rows and rank 1 only 5.
#pragma once

#include <cstdint>
#include <vector>

#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"

namespace megaflux {

struct UltraepSplit {
  std::vector<int32_t> begin;      // [E + 1] instances before expert e
  std::vector<int32_t> rows;       // expert after expert: [P, instances of e]
  std::vector<int64_t> rank_rows;  // [P] realised loads
};

// The plan must be legal for the loads. Throws kBadInput if the loads have no sources.
UltraepSplit split_ultraep(const Plan& plan, const LoadTable& loads);

}  // namespace megaflux
