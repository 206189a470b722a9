// SearchState: a search of one host thread, with memory of its own. What it holds and how it
// changes is search/search_view.h's business.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/plan/problem.h"
#include "megaflux/plan/search/search_view.h"

namespace megaflux {

class SearchState : public SearchView<SingleLane> {
 public:
  // Takes on a problem, which stays where it is while it is searched; start() comes next. Allocates
  // nothing for problems no larger than the ones before.
  void attach(const DomainProblem& problem);

  std::span<const SearchReplica> replicas() const {
    return {replicas_.data(), static_cast<size_t>(num_replicas())};
  }

 private:
  std::vector<int32_t> gap_, capacity_, slots_left_, scratch_;  // [R]
  std::vector<SearchExpert> experts_;                           // [num_experts]
  std::vector<uint64_t> more_holders_;                          // [num_experts, words - 1]
  std::vector<SearchReplica> replicas_;                         // [2 R s]
};

}  // namespace megaflux
