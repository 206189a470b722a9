// What a plan implies for given loads: work per rank, balance, rows and bytes that move. Executors
// count what they really move; the two must be equal.
//
// Example: the plan of moe/plan.h (owners {0, 0, 1}, expert 0 split into blocks [0, 3) on rank 0
// and [3, 5) on rank 1, beta 128) for rows {{300, 60, 45}, {300, 40, 45}} of two sources:
//   load_blocks {4, 3}, load_rows {384 + 100, 216 + 90} = {484, 306}, padded_rows {512, 384}, tau 4
//   moved_blocks 2; traffic rows[source][host]: rank 0 sends its 300 + 60 rows to itself and 45 to
//   rank 1, rank 1 sends 84 + 40 to rank 0 and 216 + 45 to itself, so remote_rows = 45 + 124 = 169.
//   With H = 16 in bf16, rank 0 takes in 124 * 32 bytes of dispatch and 45 * 32 of combine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "megaflux/moe/layer_shape.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"
#include "megaflux/plan/planner.h"

namespace megaflux {

// Balance of a load over the active ranks.
struct LoadSpread {
  int64_t max = 0;
  double mean = 0;       // over the active ranks
  double imbalance = 1;  // max / mean; 1 if there is no load
};

struct PlanStats {
  std::vector<int64_t> load_blocks;  // [P] blocks each rank computes
  std::vector<int64_t> load_rows;    // [P] rows each rank computes
  std::vector<int64_t> padded_rows;  // [P] rows in tiles of 128, each part with tiles of its own
  std::vector<int64_t>
      finish;         // [P] f_r, base work and speed included, in the plan's blocks; 0 if inactive
  int64_t tau = 0;    // least possible max finish, in the plan's blocks; max over the domains
  LoadSpread blocks;  // of load_blocks
  LoadSpread rows;    // of load_rows
  int32_t num_replicas = 0;
  int32_t num_copies = 0;    // replicas whose weights must move
  int64_t moved_blocks = 0;  // blocks computed by replicas
  int64_t peak_padded_rows =
      0;  // max of padded_rows: what the row pool of a rank must hold to need one round
  std::optional<int64_t>
      remote_rows;  // rows computed on another rank than their source; null without sources
};

// The plan must be legal for the loads and the config (plan/legality.h). base_blocks count blocks
// of config.dims.block_rows and are converted to the plan's blocks, rounded up.
PlanStats plan_stats(const Plan& plan, const LoadTable& loads, const PlanConfig& config);

// rows[source * P + host], [P, P]: rows of `source` computed on `host`, the diagonal included.
// Throws kBadInput if the loads have no sources.
std::vector<int64_t> traffic_rows(const Plan& plan, const LoadTable& loads);

// Bytes of the things that move in one pass. Only what crosses ranks is counted: a row computed on
// its source moves nothing. Each (token, k) row is counted on its own, also where rows of one token
// share a host. Counts, ids and maps of the head are not payload and not counted.
struct TransferSizes {
  int64_t dispatch_row = 0;  // source -> host, for each remote row
  int64_t combine_row = 0;   // host -> source, for each remote row
  int64_t replica = 0;       // owner -> host, for each replica that is not resident
  int64_t gradient = 0;      // host -> owner, for each replica with blocks, resident or not
};

// X [H] in, O [H] back, weights and biases of fresh replicas.
TransferSizes forward_sizes(const LayerShape& shape);

enum class SavedInput : uint8_t {
  kKept,
  kPulledAgain
};  // X on the host since forward, or sent again
enum class SlotWeights : uint8_t {
  kKept,
  kPulledAgain
};  // replica weights since forward, or copied again

// D [H] and the row's p (fp32) in, X [H] again if asked; dX [H] and the row's dp (fp32) back;
// weights again if asked; the fp32 gradients of W1, W2 and biases from each replica to its owner.
TransferSizes backward_sizes(const LayerShape& shape, SavedInput input, SlotWeights weights);

// Bytes that one rank sends and receives in one pass, each kind apart.
struct RankBytes {
  int64_t dispatch_in = 0;    // as host
  int64_t dispatch_out = 0;   // as source
  int64_t combine_in = 0;     // as source
  int64_t combine_out = 0;    // as host
  int64_t weights_in = 0;     // as host of replicas
  int64_t weights_out = 0;    // as owner
  int64_t gradients_in = 0;   // as owner
  int64_t gradients_out = 0;  // as host of replicas

  int64_t in() const { return dispatch_in + combine_in + weights_in + gradients_in; }
  int64_t out() const { return dispatch_out + combine_out + weights_out + gradients_out; }
  RankBytes& operator+=(const RankBytes& other);
  friend bool operator==(const RankBytes&, const RankBytes&) = default;
};

// [P]; in and out sum to the same over all ranks. Throws kBadInput if the loads have no sources.
std::vector<RankBytes> bytes_per_rank(const Plan& plan, const LoadTable& loads,
                                      const TransferSizes& sizes);

}  // namespace megaflux
