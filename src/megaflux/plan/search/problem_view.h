// ProblemView: what one NVLink domain has to decide, as the searches see it: numbers and pointers,
// in the memory of a DomainProblem (problem.h, which has an example) or of a device.
#pragma once

#include <cstdint>

#include "megaflux/base/math.h"

namespace megaflux {

// The numbers of a problem.
struct ProblemNumbers {
  int32_t num_ranks = 0;    // R, active ranks of the domain
  int32_t num_experts = 0;  // experts with rows whose owner is one of them
  int32_t most_owned = 0;   // by one rank
  int32_t replica_slots = 0;
  int32_t lambda_blocks = 0;  // blocks that a remote replica costs its owner; 0 unless backward
  int32_t total_blocks = 0;
  int64_t tau = 0;         // least T whose capacities sum to at least total_blocks
  int64_t accepted = 0;    // ceil((1 + slack) tau)
  bool is_uniform = true;  // no base, all speeds 1024
  bool has_resident = false;
  bool has_least = false;  // a replica may need more than one block; else the tables are not read
  int32_t rank_words = 1;  // 64-bit words of a set of ranks
};

struct ProblemView : ProblemNumbers {
  const int64_t* base = nullptr;         // [R] blocks of other work
  const int64_t* speed = nullptr;        // [R]
  const int32_t* fixed_load = nullptr;   // [R] blocks of the owned experts
  const int32_t* first_owned = nullptr;  // [R + 1] experts stand by (owner, blocks descending, id)
  const int32_t* owner = nullptr;        // [num_experts] local rank
  const int32_t* blocks = nullptr;       // [num_experts] b_e
  const int32_t* least_fresh = nullptr;  // [num_experts] least blocks of a replica to copy
  const int32_t* least_present = nullptr;  // [num_experts] least blocks of a resident replica
  const uint64_t* resident = nullptr;      // [num_experts, rank_words] ranks that hold it already

  MF_HOST_DEVICE int64_t finish(int32_t rank, int32_t load) const {
    if (is_uniform) return load;
    return ceil_div((base[rank] + load) * 1024, speed[rank]);
  }
  // The most blocks with which `rank` finishes by `finish_time`, clipped to [0, total_blocks],
  // which changes no decision and keeps it in 32 bits.
  MF_HOST_DEVICE int32_t capacity(int32_t rank, int64_t finish_time) const {
    const int64_t room = is_uniform ? finish_time : finish_time * speed[rank] / 1024 - base[rank];
    return static_cast<int32_t>(room < 0 ? 0 : room < total_blocks ? room : total_blocks);
  }
  MF_HOST_DEVICE bool is_resident(int32_t expert, int32_t rank) const {
    return has_resident && (resident[expert * rank_words + rank / 64] >> (rank % 64) & 1) != 0;
  }
  MF_HOST_DEVICE int32_t least_blocks(int32_t expert, int32_t rank) const {
    if (!has_least) return 1;
    return is_resident(expert, rank) ? least_present[expert] : least_fresh[expert];
  }
};

// value + ceil(value * ppm / 10^6), for value >= 0 below 2^62 / (1 + ppm / 10^6).
MF_HOST_DEVICE constexpr int64_t scaled_up(int64_t value, int32_t ppm) {
  constexpr int64_t kMillion = 1'000'000;
  return value + value / kMillion * ppm + ceil_div(value % kMillion * ppm, kMillion);
}

// Least blocks of a replica that is to carry `min_rows` rows, if the last block of its expert has
// `last_rows`. Which instance gets that block depends on ranks, so a replica counts on one full
// block less than it has.
MF_HOST_DEVICE constexpr int32_t least_replica(int32_t last_rows, int32_t min_rows,
                                               int32_t block_rows) {
  const int32_t missing = min_rows - last_rows;
  return missing <= 0 ? 1 : 1 + ceil_div(missing, block_rows);
}

// The least T at which the ranks' capacities hold all blocks; at `high` they do.
template <class Lanes>
MF_HOST_DEVICE int64_t least_common_finish(const Lanes& lanes, const ProblemView& problem,
                                           int64_t high) {
  const int64_t total = problem.total_blocks;
  if (total == 0 || problem.num_ranks == 0) return 0;
  if (problem.is_uniform) return ceil_div(problem.total_blocks, problem.num_ranks);
  int64_t low = 0;  // fails: total > 0
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    int64_t room = 0;
    for (int32_t r = lanes.first(); r < problem.num_ranks; r += Lanes::kCount) {
      room += problem.capacity(r, middle);
    }
    (lanes.sum(room) >= total ? high : low) = middle;
  }
  return high;
}

}  // namespace megaflux
