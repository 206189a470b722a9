#include "megaflux/plan/baselines/ultraep.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "megaflux/base/check.h"
#include "megaflux/base/math.h"
#include "megaflux/plan/baselines/row_baseline.h"

namespace megaflux {
namespace {

constexpr int32_t kAttempts = 3;
constexpr int32_t kProbes = 4;  // one a warp of the original's kernel
constexpr float kMillion = 1e6f;

// The original computes both bounds in fp32, and its rounding decides which tau is tried: 16384 x
// 1.01f is 16547.84, and above 2^24 rows the mean itself is rounded. Every operation here is one
// IEEE operation on floats, so the result is the same on every machine.
int64_t lower_bound(int32_t total, int32_t num_ranks, float threshold) {
  const float mean = static_cast<float>(total) / static_cast<float>(num_ranks);
  return static_cast<int64_t>(std::ceil(mean * std::max(threshold, 1.0f)));
}

int64_t first_attempt(int64_t low, float margin) {
  const float scaled = static_cast<float>(low) * (1.0f + margin);
  return std::max(static_cast<int64_t>(std::ceil(scaled)), low);
}

}  // namespace

void UltraepSolver::order_sources() {
  sources_.resize(problem_->num_ranks);
  std::iota(sources_.begin(), sources_.end(), 0);
  std::sort(sources_.begin(), sources_.end(), [this](int32_t a, int32_t b) {
    const int32_t load_a = problem_->fixed_load[a], load_b = problem_->fixed_load[b];
    return load_a != load_b ? load_a > load_b : a < b;
  });
}

bool UltraepSolver::has_capacity(int64_t tau) const {
  int64_t balance = 0;
  for (int32_t r = 0; r < problem_->num_ranks; ++r) balance += tau - problem_->fixed_load[r];
  return balance >= 0;
}

// The least tau in [low, high] at which the excess fits the room, which `high` has.
int64_t UltraepSolver::least_with_capacity(int64_t low, int64_t high) const {
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (has_capacity(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

// Admissible targets have room, a free slot and no instance of the expert. The choice is the one
// with most room, lowest id on ties, if the export there reaches the floor; -1 = none.
int32_t UltraepSolver::choose_target(int32_t expert, int64_t need, int64_t available,
                                     Floor floor) const {
  int32_t best = -1;
  int32_t admissible = 0;
  for (int32_t r = 0; r < problem_->num_ranks; ++r) {
    if (room_[r] <= 0 || slots_left_[r] == 0 || holds_[r] != 0 || problem_->owner[expert] == r) {
      continue;
    }
    ++admissible;
    if (best < 0 || room_[r] > room_[best]) best = r;
  }
  if (best < 0) return -1;
  const int64_t least =
      floor == Floor::kMinRows
          ? options_.min_rows_per_replica
          : std::max<int64_t>(1, ceil_div(need, static_cast<int64_t>(admissible)));
  return std::min({need, room_[best], available}) >= least ? best : -1;
}

bool UltraepSolver::export_from(int32_t source, int64_t need, Floor floor) {
  if (need > total_room_) return false;
  const int32_t kept = options_.owner_may_be_empty ? 0 : 1;
  for (int32_t e = problem_->first_owned[source]; e < problem_->first_owned[source + 1]; ++e) {
    int64_t available = problem_->blocks[e] - kept;
    std::fill(holds_.begin(), holds_.end(), uint8_t{0});
    while (need > 0 && available > 0) {
      const int32_t target = choose_target(e, need, available, floor);
      if (target < 0) break;
      const int64_t rows = std::min({need, room_[target], available});
      replicas_->push_back({.expert = e, .rank = target, .blocks = static_cast<int32_t>(rows)});
      holds_[target] = 1;
      --slots_left_[target];
      room_[target] -= rows;
      total_room_ -= rows;
      total_excess_ -= rows;
      available -= rows;
      need -= rows;
    }
    if (need == 0) break;
  }
  return need == 0 && total_excess_ <= total_room_;
}

bool UltraepSolver::is_feasible(int64_t tau, Floor floor) {
  const int32_t num_ranks = problem_->num_ranks;
  replicas_->clear();
  room_.resize(num_ranks);
  slots_left_.assign(num_ranks, problem_->replica_slots);
  holds_.assign(num_ranks, 0);
  total_room_ = total_excess_ = 0;
  for (int32_t r = 0; r < num_ranks; ++r) {
    const int64_t excess = problem_->fixed_load[r] - tau;
    room_[r] = std::max<int64_t>(0, -excess);
    total_room_ += room_[r];
    total_excess_ += std::max<int64_t>(0, excess);
  }
  if (total_excess_ > total_room_) return false;
  for (const int32_t source : sources_) {
    const int64_t need = problem_->fixed_load[source] - tau;
    if (need <= 0) break;  // and all that follow
    if (!export_from(source, need, floor)) return false;
  }
  return true;
}

// The least tau in [low, high] that four probes a round come upon; `high` is feasible. The oracle
// is not monotone, so a lower one may be missed, as in the original.
int64_t UltraepSolver::search_four_ways(int64_t low, int64_t high) {
  while (low < high) {
    const int64_t range = high - low;
    const bool is_last = range <= kProbes;
    int64_t before = low - 1;
    bool found = false;
    for (int32_t probe = 0; probe < kProbes && !found; ++probe) {
      const int64_t tau = is_last ? low + probe : low + range * (probe + 1) / (kProbes + 1);
      if (tau >= high) break;
      found = is_feasible(tau, Floor::kMinRows);
      (found ? high : before) = tau;
    }
    if (is_last) break;
    low = before + 1;
  }
  return high;
}

UltraepOutcome UltraepSolver::solve(const DomainProblem& problem,
                                    std::vector<SearchReplica>& replicas) {
  problem_ = &problem;
  replicas_ = &replicas;
  order_sources();
  int64_t low = lower_bound(problem.total_blocks, problem.num_ranks,
                            static_cast<float>(options_.threshold_ppm) / kMillion);
  const int64_t largest = problem.fixed_load[sources_[0]];
  const int64_t high = std::max(largest, low);
  const int64_t step = std::max<int64_t>(1, ceil_div<int64_t>(high, 100));
  int64_t tau = first_attempt(low, static_cast<float>(options_.margin_ppm) / kMillion);
  for (int32_t attempt = 1; attempt <= kAttempts; ++attempt) {
    if (is_feasible(tau, Floor::kDynamic)) return {.tau = tau, .attempts = attempt};
    tau = std::min(high, tau + step);
  }
  low = least_with_capacity(low, high);
  tau = low;
  if (!is_feasible(tau, Floor::kMinRows)) tau = search_four_ways(low + 1, high);
  MF_INVARIANT(is_feasible(tau, Floor::kMinRows), "ultraep: ", tau, " was feasible before");
  return {.tau = tau, .attempts = kAttempts + 1};
}

namespace {

class UltraepPlanner final : public RowBaseline {
 public:
  explicit UltraepPlanner(PlanConfig config)
      : RowBaseline(std::move(config)), solver_(this->config().baselines.ultraep) {}

 private:
  void place(const DomainProblem& problem, std::vector<SearchReplica>& replicas) final {
    solver_.solve(problem, replicas);
  }

  UltraepSolver solver_;
};

}  // namespace

std::unique_ptr<Planner> make_ultraep_planner(PlanConfig config) {
  return std::make_unique<UltraepPlanner>(std::move(config));
}

}  // namespace megaflux
