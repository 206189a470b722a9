#include "megaflux/plan/search_state.h"

namespace megaflux {

void SearchState::attach(const DomainProblem& problem) {
  const auto ranks = static_cast<size_t>(problem.num_ranks);
  const auto experts = static_cast<size_t>(problem.most_experts);
  const auto grow = [](auto& memory, size_t count) {
    if (memory.size() < count) memory.resize(count);
    return memory.data();
  };
  const SearchMemory memory = {
      .gap = grow(gap_, ranks),
      .capacity = grow(capacity_, ranks),
      .slots_left = grow(slots_left_, ranks),
      .scratch = grow(scratch_, ranks),
      .experts = grow(experts_, experts),
      .more_holders = grow(more_holders_, experts * (problem.rank_words - 1)),
      .replicas = grow(replicas_, 2 * ranks * problem.replica_slots),
  };
  static_cast<SearchView<SingleLane>&>(*this) =
      SearchView<SingleLane>(SingleLane{}, problem.view(), memory);
  reset();
}

}  // namespace megaflux
