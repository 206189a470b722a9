// PullList: what the comm warps of a rank bring, in the one order of its list: pieces of 4 rows,
// tile by tile, and between them the pieces of replica weights. Host and device share this code.
//
// Everything stands where it is first needed. W1 of a replica comes behind the rows of its first
// unit, W2 behind those of the units whose FC1 comes before its first FC2. So what is needed first
// is brought first, whatever comes how fast.
//
// Example: tiles 0 ... 9 are owned, 10 ... 29 of a replica, units of 8 tiles, lag 1, 100 pieces of
// W1 and 50 of W2: rows of tiles 0 ... 17 (pieces 0 ... 575), W1 (576 ... 675), rows of tiles 18
// ... 25 (676 ... 931), W2 (932 ... 981), rows of tiles 26 ... 29 (982 ... 1109).
#pragma once

#include <cstdint>

#include "megaflux/layer/weight_cut.h"
#include "megaflux/moe/work_list.h"

namespace megaflux {

inline constexpr int32_t kPieceRows = 4;  // rows that are counted together
inline constexpr int32_t kTilePieces = kTileRows / kPieceRows;

// A matrix of a replica in the list.
struct alignas(16) WeightRun {
  int32_t begin = 0;       // position of its first piece
  int32_t num_pieces = 0;  // of it
  int32_t before = 0;      // pieces of weights before it
  uint16_t expert = 0;
  uint8_t slot = 0;
  Matrix matrix = Matrix::kW1;
};
static_assert(sizeof(WeightRun) == 16);

// Two for each slot.
inline constexpr int32_t kMaxWeightRuns = 16;

// A piece of the list: of rows, counted over all tiles, or of the weights of a run.
struct PulledPiece {
  int32_t run = -1;  // -1 = rows
  int32_t index = 0;
};

// `run` is the last one that begins at or before `position`, number `run_idx`; -1 = none does.
MF_HOST_DEVICE inline PulledPiece piece_at(int32_t position, int32_t run_idx,
                                           const WeightRun& run) {
  if (run_idx < 0) return {-1, position};
  if (position < run.begin + run.num_pieces) return {run_idx, position - run.begin};
  return {-1, position - run.before - run.num_pieces};
}

// What a list follows from besides the parts.
struct PullOrder {
  int32_t unit_tiles = 1;
  int32_t lag = 0;                 // units between FC1 and FC2
  int32_t num_pieces[2] = {0, 0};  // of a W1 and of a W2
};

// The run of one matrix of a replica's part, behind `before` pieces of weights.
MF_HOST_DEVICE inline WeightRun run_of(const Part& part, int32_t slot, Matrix matrix,
                                       const PullOrder& order, int32_t before) {
  const int32_t units = matrix == Matrix::kW1 ? 1 : order.lag + 1;
  const int32_t wanted = units * order.unit_tiles;
  const int32_t tiles = part.first_tile + (wanted < part.num_tiles ? wanted : part.num_tiles);
  return {.begin = tiles * kTilePieces + before,
          .num_pieces = order.num_pieces[static_cast<int32_t>(matrix)],
          .before = before,
          .expert = static_cast<uint16_t>(part.expert),
          .slot = static_cast<uint8_t>(slot),
          .matrix = matrix};
}

}  // namespace megaflux
