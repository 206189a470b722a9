// Broadcast (FasterMoE's shadowing): the hottest experts are copied to every rank, where each
// source computes its own rows of them. One more expert joins as long as a latency model of the
// training step says that it helps: compute of the slowest rank, rows into the busiest rank, and
// the weights of every broadcast.
//
// Example, two ranks that send {900, 100} and {700, 300} rows to expert 0 of rank 0 and expert 1 of
// rank 1: broadcasting expert 0 leaves loads {900, 700 + 400}; rank 0 then receives nothing.
#include <algorithm>
#include <numeric>
#include <utility>

#include "megaflux/base/math.h"
#include "megaflux/plan/baselines/row_baseline.h"

namespace megaflux {
namespace {

// What one row and one expert cost, in picoseconds.
struct BroadcastCost {
  explicit BroadcastCost(const BroadcastOptions& options) {
    constexpr int64_t kPasses = 3;           // forward, and the two products of backward
    constexpr int64_t kValueBytes = 4;       // fp32 weights and rows, as in the original
    constexpr int64_t kMatrices = 2;         // of [hidden, inter]
    constexpr int64_t kPsPerMb = 1'000'000;  // bytes over MB/s are microseconds
    const int64_t values = kMatrices * options.hidden * options.inter;
    row_ps = ceil_div(kPasses * 2 * values * 1000, options.gflops);
    received_row_ps = ceil_div(kValueBytes * options.hidden * kPsPerMb, options.link_mb_per_s);
    expert_ps = ceil_div(kValueBytes * values * kPsPerMb, options.link_mb_per_s);
  }
  int64_t row_ps = 0;
  int64_t received_row_ps = 0;
  int64_t expert_ps = 0;
};

class BroadcastPlanner final : public RowBaseline {
 public:
  explicit BroadcastPlanner(PlanConfig config)
      : RowBaseline(std::move(config)), cost_(this->config().baselines.broadcast) {}

 private:
  void place(const DomainProblem& problem, std::vector<SearchReplica>& replicas) final;
  void start(const DomainProblem& problem);
  void broadcast(const DomainProblem& problem, int32_t expert);
  int64_t latency(int64_t num_broadcast) const;
  int32_t rows(const DomainProblem& problem, int32_t rank, int32_t expert) const {
    return loads().rows(problem.ranks[rank], problem.experts[expert]);
  }

  BroadcastCost cost_;
  std::vector<int32_t> experts_;   // by rows descending
  std::vector<int64_t> computed_;  // [R] rows
  std::vector<int64_t> received_;  // [R] rows from other ranks
};

void BroadcastPlanner::start(const DomainProblem& problem) {
  computed_.assign(problem.fixed_load.begin(), problem.fixed_load.end());
  received_ = computed_;
  for (int32_t e = 0; e < problem.num_experts; ++e) {
    received_[problem.owner[e]] -= rows(problem, problem.owner[e], e);
  }
  experts_.resize(problem.num_experts);
  std::iota(experts_.begin(), experts_.end(), 0);
  std::sort(experts_.begin(), experts_.end(), [&](int32_t a, int32_t b) {
    if (problem.blocks[a] != problem.blocks[b]) return problem.blocks[a] > problem.blocks[b];
    return problem.experts[a] < problem.experts[b];
  });
}

// Sources inside the domain compute their own rows; those of other sources still go to the owner.
void BroadcastPlanner::broadcast(const DomainProblem& problem, int32_t expert) {
  const int32_t owner = problem.owner[expert];
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    if (r == owner) continue;
    const int32_t own = rows(problem, r, expert);
    computed_[owner] -= own;
    received_[owner] -= own;
    computed_[r] += own;
  }
}

int64_t BroadcastPlanner::latency(int64_t num_broadcast) const {
  const int64_t slowest = *std::max_element(computed_.begin(), computed_.end());
  const int64_t busiest = *std::max_element(received_.begin(), received_.end());
  return slowest * cost_.row_ps + busiest * cost_.received_row_ps + num_broadcast * cost_.expert_ps;
}

void BroadcastPlanner::place(const DomainProblem& problem, std::vector<SearchReplica>& replicas) {
  if (problem.num_ranks == 1) return;
  start(problem);
  int64_t best = latency(0);
  // A plan has at most kMaxReplicaSlots slots a rank.
  const auto most = std::min<int32_t>(problem.num_experts, kMaxReplicaSlots);
  int32_t chosen = 0;
  for (; chosen < most; ++chosen) {
    broadcast(problem, experts_[chosen]);
    const int64_t then = latency(chosen + 1);
    if (then >= best) break;
    best = then;
  }
  for (int32_t i = 0; i < chosen; ++i) {
    // A rank without rows of the expert computes nothing there: no replica is needed.
    for (int32_t r = 0; r < problem.num_ranks; ++r) {
      replicas.push_back(
          {.expert = experts_[i], .rank = r, .blocks = rows(problem, r, experts_[i])});
    }
  }
}

}  // namespace

std::unique_ptr<Planner> make_broadcast_planner(PlanConfig config) {
  return std::make_unique<BroadcastPlanner>(std::move(config));
}

}  // namespace megaflux
