// What one rank did in one launch: bytes that crossed between ranks, rows, rounds and time.
#pragma once

#include <cstdint>
#include <vector>

namespace megaflux {

// Example, forward, H = 256, bf16: a rank that pulls 100 rows of other ranks, pushes their 100
// results and fills one slot moves 51,200 bytes of dispatch in, 51,200 of combine out and
// expert_bytes() of weights in.
enum class Traffic : uint8_t {
  kDispatch,   // pulled: rows of x; in backward rows of dY and x and 4 bytes of routing weight
  kCombine,    // pushed: rows of O; in backward rows of dX and 4 bytes of dp
  kWeights,    // pulled: weights and biases of replicas
  kGradients,  // pulled by the owner: fp32 gradients of replicas
};
inline constexpr int32_t kNumTraffic = 4;

struct RankReport {
  // bytes[kind][peer]: what this rank itself moved from (combine: to) the peer; 0 for itself.
  std::vector<int64_t> bytes[kNumTraffic];
  int64_t rows = 0;             // rows computed
  int64_t rows_from_slots = 0;  // those of them computed with replica weights
  int32_t tiles = 0;            // tiles of the list; 128 tiles = padded rows
  int32_t rounds = 0;  // fillings of the row pool, ceil(tiles / pool tiles); 0 without rows
  int64_t recomputed_z_rows = 0;  // backward: padded rows whose Z was computed again
  int64_t compute_cpu_ns = 0;     // CPU time of the compute role
  int64_t comm_cpu_ns = 0;        // CPU time of the comm role
  int64_t wall_ns = 0;            // from before the entry to after the exit

  void clear(int32_t num_ranks);
  void add(Traffic kind, int32_t peer, int64_t moved) {
    bytes[static_cast<int32_t>(kind)][peer] += moved;
  }
  int64_t bytes_of(Traffic kind, int32_t peer) const {
    return bytes[static_cast<int32_t>(kind)][peer];
  }
};

// CPU time of the calling thread and time of the wall clock, in nanoseconds.
int64_t thread_cpu_ns();
int64_t wall_ns();

}  // namespace megaflux
