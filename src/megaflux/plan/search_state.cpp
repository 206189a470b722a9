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
      .own_left = grow(own_left_, experts),
      .head = grow(head_, experts),
      .holders = grow(holders_, experts * problem.rank_words),
      .replicas = grow(replicas_, 2 * ranks * problem.replica_slots),
      .rank_marks = grow(rank_marks_, ranks),
      .rank_keys = grow(rank_keys_, ranks),
  };
  static_cast<SearchView<SingleLane>&>(*this) =
      SearchView<SingleLane>(SingleLane{}, problem.view(), memory);
  reset();
}

}  // namespace megaflux
