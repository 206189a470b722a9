// BaselineConfig: the knobs of the rivals' planners, with the defaults that their authors ship. All
// fractions are in millionths, so that every decision but UltraEP's and LPLB's stays in integers.
//
// Example: llep.alpha_ppm = 1'100'000 lets every rank take 1.1 x floor(mean) rows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "megaflux/base/hash.h"

namespace megaflux {

// UltraEP 1.0.0.
struct UltraepOptions {
  int32_t margin_ppm = 10'000;          // the first attempt aims at mean x (1 + margin)
  int32_t threshold_ppm = 1'000'000;    // multiplier of the lower bound, at least 1
  int32_t min_rows_per_replica = 1024;  // used by the fallback only, as in the original
  bool owner_may_be_empty = false;      // an owner may give away its last row
};

// Which copy of an expert a row goes to, once a placement is there.
enum class CopySelection : uint8_t {
  kRoundRobin,  // row o of the global row order to copy o mod n: the even split
  kEachSource,  // the same, every source starts at the first copy
  kNearest,     // copies on the row's source, else on its node, else all; each source in turns
};

struct EplbOptions {
  int32_t num_groups = 1;  // G; hierarchical if num_nodes divides it, else global
  int32_t num_nodes = 1;   // M
  CopySelection selection = CopySelection::kRoundRobin;
};

enum class LplbSolver : uint8_t {
  kExact,          // the linear program, solved
  kInteriorPoint,  // five affine-scaling steps in fp32, and half and half if they are not accepted
};

struct LplbOptions {
  LplbSolver solver = LplbSolver::kExact;
  // [g, D] row-major for a domain of g ranks: the rank whose d-th expert is copied to slot group d
  // of rank x; every column is a permutation. Empty = a cube for g = 8 and D = 2, else rank x - 1 -
  // d, D = min(s, g - 1). Slots are used in whole multiples of D.
  std::vector<int32_t> source_of;
  int32_t num_columns = 0;  // D of source_of
};

struct LlepOptions {
  int32_t alpha_ppm = 1'000'000;  // capacity of a rank over floor(mean)
  int32_t min_rows = 1024;        // m, least rows of a chunk unless it is the whole rest
  int32_t gate_ppm = 1'300'000;   // fixed placement up to this imbalance
};

enum class EchoMode : uint8_t {
  kQueue,    // eight buckets; with one slot a rank only, else one shot: the default
  kOneShot,  // intervals on one line
};

struct EchoOptions {
  EchoMode mode = EchoMode::kQueue;
  // An owner takes its smallest offloads back while its load is at most mean x (1 + reclaim).
  std::optional<int32_t> reclaim_ppm;
};

// FasterMoE's latency model of a training step.
struct BroadcastOptions {
  int64_t gflops = 700'000;
  int64_t link_mb_per_s = 335'000;
  int32_t hidden = 2048;
  int32_t inter = 4096;
};

struct BaselineConfig {
  UltraepOptions ultraep;
  EplbOptions eplb;
  LplbOptions lplb;
  LlepOptions llep;
  EchoOptions echo;
  BroadcastOptions broadcast;
  // [E] rows of earlier steps that eplb and lplb place by; empty = they see the step's own loads.
  std::vector<int64_t> history;
};

// Throws kBadInput naming the field, the value and the limit.
void check_baselines(const BaselineConfig& config, int32_t num_experts, int32_t num_ranks);
void add_to_hash(const BaselineConfig& config, Hasher& hasher);

}  // namespace megaflux
