// WeightCut: how a matrix of weights is cut into pieces on its way from an expert's owner to a
// replica slot, so that whoever needs a column tile waits for its rows and for no more.
//
// A matrix is 1 or 2 halves of rows; a column tile takes tile_rows rows of each half, which lie
// together, and pieces are what of them lies together, up to 32 KB. Every tile has equally many
// pieces; those behind the end of the matrix are empty, so that closed forms suffice.
//
// Example, W1 of H = 4096, I = 1536 in bf16: halves are 1536 rows of 8 KB, tiles 128 rows of each,
// 2 MB: 12 tiles of 64 pieces. Piece 65 is rows 132 ... 135 of the gate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "megaflux/base/math.h"

namespace megaflux {

inline constexpr int32_t kWeightPieceBytes = 32 * 1024;

enum class Matrix : uint8_t { kW1, kW2 };

// Where the weights of an expert lie at its owner, as the reader reaches them.
struct ExpertSource {
  const std::byte* w1 = nullptr;  // [2I, H]
  const std::byte* w2 = nullptr;  // [H, I]
  const float* b1 = nullptr;      // [2I] or null
  const float* b2 = nullptr;      // [H] or null
};

struct WeightPiece {
  int32_t tile = 0;
  int64_t offset = 0;     // bytes from the start of the matrix
  int32_t bytes = 0;      // 0 behind the end of the matrix
  int32_t first_row = 0;  // of the biases that go with it
  int32_t bias_rows = 0;  // their number
};

struct WeightCut {
  int32_t halves = 1;     // 2 for W1, gate and up in either order
  int32_t rows = 0;       // of a half
  int32_t row_bytes = 0;  // a multiple of 16
  int32_t tile_rows = 1;  // of a half in a column tile

  MF_HOST_DEVICE int32_t num_tiles() const { return ceil_div(rows, tile_rows); }
  // Of one half of a tile.
  MF_HOST_DEVICE int32_t region_pieces() const {
    return ceil_div(tile_rows * row_bytes, kWeightPieceBytes);
  }
  MF_HOST_DEVICE int32_t tile_pieces() const { return halves * region_pieces(); }
  MF_HOST_DEVICE int32_t num_pieces() const { return num_tiles() * tile_pieces(); }

  MF_HOST_DEVICE WeightPiece piece(int32_t index) const {
    const int32_t in_tile = index % tile_pieces();
    const int32_t half = in_tile / region_pieces(), part = in_tile % region_pieces();
    WeightPiece piece;
    piece.tile = index / tile_pieces();
    const int32_t first = piece.tile * tile_rows;
    const int32_t here = rows - first < tile_rows ? rows - first : tile_rows;
    const int32_t begin = part * kWeightPieceBytes, region_bytes = here * row_bytes;
    piece.first_row = half * rows + first;
    piece.offset = int64_t{piece.first_row} * row_bytes + begin;
    const int32_t left = region_bytes > begin ? region_bytes - begin : 0;
    piece.bytes = left < kWeightPieceBytes ? left : kWeightPieceBytes;
    piece.bias_rows = part == 0 ? here : 0;
    return piece;
  }
};

}  // namespace megaflux
