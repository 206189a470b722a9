// MegaConfig: the numbers of a layer on the GPU, chosen once at creation, and what they cost.
//
// Example: E = 128, P = 8, K = 8, T_max = 8192, s = 2: a rank owns 16 experts, and C = ceil(1.25 *
// 8192 * 8) + 128 * 18 = 84,224 rows = 658 tiles. At H = 4096, I = 1536 the row pools are 658 MiB
// (x) and 247 MiB (A), tokens 64 MiB and results 512 MiB.
#pragma once

#include <cstdint>

#include "megaflux/layer/weight_cut.h"
#include "megaflux/moe/layer_shape.h"

namespace megaflux {

// Tiles of the output of one GEMM, kTileRows x kTileColumns, computed kTileDepth of K at a time.
inline constexpr int32_t kTileColumns = 256;
inline constexpr int32_t kTileDepth = 64;
// Columns of O that a warp turns round in shared memory at a time; H and I are multiples.
inline constexpr int32_t kTurnedColumns = 64;
// Channels of A that leave through shared memory at a time.
inline constexpr int32_t kStagedChannels = 32;
// Of FC1's 256 columns, 128 are gates and 128 ups of the same channels.
inline constexpr int32_t kTileChannels = kTileColumns / 2;
// Row tiles that share a tile of weights while it is in the L2 cache.
inline constexpr int32_t kUnitTiles = 16;
// Columns of a token's y that one warp sums where there are few tokens.
inline constexpr int32_t kSliceColumns = 512;
// Tokens whose results are counted in one word.
inline constexpr int32_t kCountedTokens = 8;

struct MegaConfig {
  LayerShape shape;           // bf16; H and I multiples of 64; E up to 1024
  int32_t num_ranks = 1;      // P, 1 ... 128
  int32_t most_owned = 0;     // experts of the rank that owns most; 0 = ceil(E / P)
  int32_t replica_slots = 0;  // s, slots a rank, 0 ... 8
  int32_t max_tokens = 0;     // T_max, tokens a rank
  int64_t pool_rows = 0;      // C, cut to whole tiles; 0 = ceil(1.25 T_max K) + 128 (E_local + s)
  int32_t num_sms = 0;        // of a rank; 0 = all that it can have
  int32_t lag_waves = 2;      // FC2 trails FC1 by this many tasks a CTA, 1 ... 64

  // Of a resolved config.
  // Experts that a rank can compute, and so parts of a list.
  int32_t most_weights() const { return most_owned + replica_slots; }
  int32_t pool_tiles() const;
  // Tiles of the longest list: every row of every rank is this rank's.
  int32_t max_tiles() const;
  int32_t fc1_columns() const;  // N tiles of FC1, ceil(I / 128)
  int32_t fc2_columns() const;  // N tiles of FC2, ceil(H / 256)
  // Tiles of a unit: kUnitTiles, or fewer in a small pool.
  int32_t unit_tiles() const;
  // How W1 and W2 of a replica are cut on their way.
  WeightCut w1_cut() const;
  WeightCut w2_cut() const;
};

// The config with every default filled in; `rank_sms` are the SMs of a device over the ranks that
// it hosts. Throws kBadInput naming the field, its value and its limit.
MegaConfig resolve_config(MegaConfig config, int32_t rank_sms);

// Of all that must be equal on all ranks: not of pools, SMs and lag. A resolved config only.
uint64_t config_hash(const MegaConfig& config);

}  // namespace megaflux
