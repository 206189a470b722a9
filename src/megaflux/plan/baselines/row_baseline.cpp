#include "megaflux/plan/baselines/row_baseline.h"

#include <algorithm>
#include <tuple>

namespace megaflux {

void RowBaseline::merge(const DomainProblem& problem) {
  std::erase_if(replicas_, [&](const SearchReplica& replica) {
    return replica.blocks == 0 || problem.owner[replica.expert] == replica.rank;
  });
  std::sort(replicas_.begin(), replicas_.end(), [](const auto& a, const auto& b) {
    return std::tie(a.expert, a.rank) < std::tie(b.expert, b.rank);
  });
  size_t kept = 0;
  for (const SearchReplica& replica : replicas_) {
    if (kept > 0 && replicas_[kept - 1].expert == replica.expert &&
        replicas_[kept - 1].rank == replica.rank) {
      replicas_[kept - 1].blocks += replica.blocks;
    } else {
      replicas_[kept++] = replica;
    }
  }
  replicas_.resize(kept);
}

uint64_t RowBaseline::objective(const DomainProblem& problem) {
  if (config().objective == Objective::kCost) return scorer().predict_ns(problem.view(), replicas_);
  loads_.assign(problem.fixed_load.begin(), problem.fixed_load.end());
  for (const SearchReplica& replica : replicas_) {
    loads_[problem.owner[replica.expert]] += problem.lambda_blocks - replica.blocks;
    loads_[replica.rank] += replica.blocks;
  }
  int64_t latest = 0;
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    latest = std::max(latest, problem.finish(r, loads_[r]));
  }
  return static_cast<uint64_t>(latest);
}

DomainSolution RowBaseline::solve(const DomainProblem& problem) {
  replicas_.clear();
  place(problem, replicas_);
  merge(problem);
  return {.replicas = replicas_, .objective = objective(problem)};
}

}  // namespace megaflux
