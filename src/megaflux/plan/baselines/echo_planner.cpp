// ECHO (Megatron): rows of a rank's experts above the mean spill, the largest experts first; ranks
// below the mean take spills, at most s each. One shot lays spills and room as intervals on one
// line, both descending, and keeps the s largest overlaps of every rank. The queue, for one slot a
// rank, hands every rank the next spill of the fullest of eight buckets. What nobody takes stays.
//
// Example, one-hot: rows {4096, 0, 0, 0, 0, 0, 0, 0}, four ranks, one slot: mean 1024, expert 0
// spills 3072, and three ranks with room for 1024 take it. Rows {2500, 1500, 96, 0, ...}: rank 0
// holds 4000; expert 1 stays below the mean for 1024 rows and spills 476, expert 0 spills 2500.
#include <algorithm>
#include <array>
#include <utility>

#include "megaflux/plan/baselines/row_baseline.h"

namespace megaflux {
namespace {

constexpr int32_t kBuckets = 8;
constexpr int64_t kMillion = 1'000'000;

// Rows that an expert has too many, or a rank too few.
struct Amount {
  int32_t id = 0;  // local index
  int64_t rows = 0;
};

class EchoPlanner final : public RowBaseline {
 public:
  explicit EchoPlanner(PlanConfig config) : RowBaseline(std::move(config)) {}

 private:
  void place(const DomainProblem& problem, std::vector<SearchReplica>& replicas) final;
  void find_spills(const DomainProblem& problem);
  void find_room(const DomainProblem& problem);
  void overlap(std::vector<SearchReplica>& replicas) const;
  void keep_largest(const DomainProblem& problem, std::vector<SearchReplica>& replicas);
  void fill_from_buckets(std::vector<SearchReplica>& replicas);
  size_t bucket_of(int64_t rows) const;
  void reclaim(const DomainProblem& problem, std::vector<SearchReplica>& replicas);

  int64_t mean_ = 0;
  std::vector<Amount> spills_;
  std::vector<Amount> room_;  // by rows descending
  std::vector<int32_t> slots_left_;
  std::vector<int64_t> loads_;
  std::array<std::vector<Amount>, kBuckets> buckets_;
  std::array<size_t, kBuckets> heads_ = {};
};

// A rank's experts stand by rows descending, ids ascending among equals; the sum goes the other
// way, ids ascending again.
void EchoPlanner::find_spills(const DomainProblem& problem) {
  spills_.clear();
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    const size_t first = spills_.size();
    for (int32_t e = problem.first_owned[r]; e < problem.first_owned[r + 1]; ++e) {
      spills_.push_back({e, problem.blocks[e]});
    }
    std::sort(spills_.begin() + first, spills_.end(), [&](const Amount& a, const Amount& b) {
      return a.rows != b.rows ? a.rows < b.rows : a.id < b.id;
    });
    int64_t sum = 0;
    for (size_t i = first; i < spills_.size(); ++i) {
      const int64_t above = std::max<int64_t>(0, sum - mean_);
      sum += spills_[i].rows;
      spills_[i].rows = std::max<int64_t>(0, sum - mean_) - above;
    }
  }
  std::erase_if(spills_, [](const Amount& spill) { return spill.rows == 0; });
  // By expert id, the order in which equals are met.
  std::sort(spills_.begin(), spills_.end(), [&](const Amount& a, const Amount& b) {
    return problem.experts[a.id] < problem.experts[b.id];
  });
}

void EchoPlanner::find_room(const DomainProblem& problem) {
  room_.clear();
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    if (problem.fixed_load[r] < mean_) room_.push_back({r, mean_ - problem.fixed_load[r]});
  }
  std::sort(room_.begin(), room_.end(), [](const Amount& a, const Amount& b) {
    return a.rows != b.rows ? a.rows > b.rows : a.id < b.id;
  });
}

// Spills and room, laid end to end on one line: every overlap is a replica.
void EchoPlanner::overlap(std::vector<SearchReplica>& replicas) const {
  size_t spill = 0, host = 0;
  int64_t spill_end = spills_.empty() ? 0 : spills_[0].rows;
  int64_t host_end = room_.empty() ? 0 : room_[0].rows;
  int64_t position = 0;
  while (spill < spills_.size() && host < room_.size()) {
    const int64_t end = std::min(spill_end, host_end);
    replicas.push_back({.expert = spills_[spill].id,
                        .rank = room_[host].id,
                        .blocks = static_cast<int32_t>(end - position)});
    position = end;
    if (end == spill_end && ++spill < spills_.size()) spill_end += spills_[spill].rows;
    if (end == host_end && ++host < room_.size()) host_end += room_[host].rows;
  }
}

// The first of equals on the line stays.
void EchoPlanner::keep_largest(const DomainProblem& problem, std::vector<SearchReplica>& replicas) {
  for (size_t i = 0; i < replicas.size(); ++i) replicas[i].next = static_cast<int32_t>(i);
  std::sort(replicas.begin(), replicas.end(), [](const auto& a, const auto& b) {
    return a.blocks != b.blocks ? a.blocks > b.blocks : a.next < b.next;
  });
  slots_left_.assign(problem.num_ranks, problem.replica_slots);
  std::erase_if(replicas, [this](const SearchReplica& r) { return slots_left_[r.rank]-- <= 0; });
}

// Bucket 0 holds spills of at least the mean, the others a seventh of it each.
size_t EchoPlanner::bucket_of(int64_t rows) const {
  if (rows >= mean_) return 0;
  return static_cast<size_t>(kBuckets - 1 - rows * (kBuckets - 1) / mean_);
}

void EchoPlanner::fill_from_buckets(std::vector<SearchReplica>& replicas) {
  for (std::vector<Amount>& bucket : buckets_) bucket.clear();
  heads_.fill(0);
  for (const Amount& spill : spills_) buckets_[bucket_of(spill.rows)].push_back(spill);
  for (const Amount& host : room_) {
    size_t b = 0;
    while (b < kBuckets && heads_[b] == buckets_[b].size()) ++b;
    if (b == kBuckets) return;
    Amount spill = buckets_[b][heads_[b]++];
    const int64_t rows = std::min(spill.rows, host.rows);
    replicas.push_back({.expert = spill.id, .rank = host.id, .blocks = static_cast<int32_t>(rows)});
    spill.rows -= rows;
    if (spill.rows > 0) buckets_[bucket_of(spill.rows)].push_back(spill);
  }
}

// Owners take their smallest offloads back while they stay within mean x (1 + reclaim).
void EchoPlanner::reclaim(const DomainProblem& problem, std::vector<SearchReplica>& replicas) {
  const int64_t limit = mean_ + mean_ * int64_t{*config().baselines.echo.reclaim_ppm} / kMillion;
  loads_.assign(problem.fixed_load.begin(), problem.fixed_load.end());
  for (const SearchReplica& r : replicas) loads_[problem.owner[r.expert]] -= r.blocks;
  std::sort(replicas.begin(), replicas.end(), [&](const auto& a, const auto& b) {
    if (a.blocks != b.blocks) return a.blocks < b.blocks;
    if (a.expert != b.expert) return problem.experts[a.expert] < problem.experts[b.expert];
    return a.rank < b.rank;
  });
  std::erase_if(replicas, [&](const SearchReplica& r) {
    int64_t& load = loads_[problem.owner[r.expert]];
    if (load + r.blocks > limit) return false;
    load += r.blocks;
    return true;
  });
}

void EchoPlanner::place(const DomainProblem& problem, std::vector<SearchReplica>& replicas) {
  mean_ = problem.total_blocks / problem.num_ranks;
  if (mean_ == 0 || problem.replica_slots == 0) return;
  find_spills(problem);
  find_room(problem);
  if (config().baselines.echo.mode == EchoMode::kQueue && problem.replica_slots == 1) {
    fill_from_buckets(replicas);
  } else {
    std::sort(spills_.begin(), spills_.end(), [&](const Amount& a, const Amount& b) {
      if (a.rows != b.rows) return a.rows > b.rows;
      return problem.experts[a.id] < problem.experts[b.id];
    });
    overlap(replicas);
    keep_largest(problem, replicas);
  }
  if (config().baselines.echo.reclaim_ppm) reclaim(problem, replicas);
}

}  // namespace

std::unique_ptr<Planner> make_echo_planner(PlanConfig config) {
  return std::make_unique<EchoPlanner>(std::move(config));
}

}  // namespace megaflux
