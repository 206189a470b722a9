#include <algorithm>
#include <numeric>

#include "megaflux/base/math.h"
#include "megaflux/plan/baselines/lplb.h"

namespace megaflux {
namespace {

// Max-flow from ranks above t to ranks below it; a variable is an edge from owner to host that
// carries up to its rows.
class Flow {
 public:
  explicit Flow(const LplbProblem& problem);

  int64_t least_largest_load();
  // False if t is too low. Leaves the rows that moved in moved().
  bool reaches(int64_t t);
  const std::vector<int64_t>& moved() const { return moved_; }

 private:
  struct Edge {
    int32_t to = 0;
    int32_t variable = 0;
    bool is_forward = true;
  };

  int64_t room(const Edge& edge) const {
    const int64_t moved = moved_[edge.variable];
    return edge.is_forward ? problem_.variables[edge.variable].rows - moved : moved;
  }
  int32_t find_path(int64_t t);
  void push_along(int32_t target, int64_t t);

  const LplbProblem& problem_;
  std::vector<int64_t> start_;  // [g] loads if nothing moves
  std::vector<int64_t> load_;
  std::vector<int64_t> moved_;
  std::vector<std::vector<Edge>> edges_;
  std::vector<int32_t> queue_;
  std::vector<int32_t> previous_;  // [g] rank before on the path, -1 = not reached, itself = source
  std::vector<Edge> previous_edge_;
};

Flow::Flow(const LplbProblem& problem)
    : problem_(problem), start_(problem.fixed), edges_(problem.fixed.size()) {
  for (size_t i = 0; i < problem.variables.size(); ++i) {
    const LplbVariable& variable = problem.variables[i];
    start_[variable.owner] += variable.rows;
    const auto index = static_cast<int32_t>(i);
    edges_[variable.owner].push_back({variable.host, index, true});
    edges_[variable.host].push_back({variable.owner, index, false});
  }
  previous_edge_.resize(start_.size());
}

// Breadth first from all ranks above t, lowest ids first; the first rank below t, or -1.
int32_t Flow::find_path(int64_t t) {
  const auto num_ranks = static_cast<int32_t>(load_.size());
  previous_.assign(num_ranks, -1);
  queue_.clear();
  for (int32_t r = 0; r < num_ranks; ++r) {
    if (load_[r] <= t) continue;
    previous_[r] = r;
    queue_.push_back(r);
  }
  for (size_t i = 0; i < queue_.size(); ++i) {
    for (const Edge& edge : edges_[queue_[i]]) {
      if (previous_[edge.to] >= 0 || room(edge) == 0) continue;
      previous_[edge.to] = queue_[i];
      previous_edge_[edge.to] = edge;
      if (load_[edge.to] < t) return edge.to;
      queue_.push_back(edge.to);
    }
  }
  return -1;
}

void Flow::push_along(int32_t target, int64_t t) {
  int64_t rows = t - load_[target];
  int32_t source = target;
  for (; previous_[source] != source; source = previous_[source]) {
    rows = std::min(rows, room(previous_edge_[source]));
  }
  rows = std::min(rows, load_[source] - t);
  for (int32_t r = target; previous_[r] != r; r = previous_[r]) {
    const Edge& edge = previous_edge_[r];
    moved_[edge.variable] += edge.is_forward ? rows : -rows;
  }
  load_[source] -= rows;
  load_[target] += rows;
}

bool Flow::reaches(int64_t t) {
  load_ = start_;
  moved_.assign(problem_.variables.size(), 0);
  for (int32_t target = find_path(t); target >= 0; target = find_path(t)) push_along(target, t);
  return *std::max_element(load_.begin(), load_.end()) <= t;
}

int64_t Flow::least_largest_load() {
  const int64_t total = std::accumulate(start_.begin(), start_.end(), int64_t{0});
  int64_t low = ceil_div(total, static_cast<int64_t>(start_.size()));
  int64_t high = *std::max_element(start_.begin(), start_.end());
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (reaches(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

}  // namespace

std::vector<int64_t> solve_lplb_exact(const LplbProblem& problem) {
  Flow flow(problem);
  flow.reaches(flow.least_largest_load());
  std::vector<int64_t> kept;
  for (size_t i = 0; i < problem.variables.size(); ++i) {
    kept.push_back(problem.variables[i].rows - flow.moved()[i]);
  }
  return kept;
}

}  // namespace megaflux
