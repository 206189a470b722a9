// Role comm, first half: the comm warp of each CTA brings rows into the pool, tile by tile in list
// order. Math warps bring the first ones, which they would wait for. Waits for places of a ring
// (await_place); signals x_full.
#pragma once

#include <new>

#include "megaflux/layer/mega/readiness_device.cuh"

namespace megaflux::mega {

inline constexpr int32_t kPieceRows = 4;  // rows that a warp brings at a time
inline constexpr int32_t kTilePieces = kTileRows / kPieceRows;

// One warp: the part that holds `tile`, among up to 32^2: first among every so many, then there.
__device__ inline int32_t find_part(const WorkListView& work, int32_t tile) {
  const int32_t num_parts = work.header->num_parts;
  const auto count_begun = [&](int32_t part, bool is_asked) {
    const bool is_begun = is_asked && part < num_parts && work.parts[part].first_tile <= tile;
    return __popc(__ballot_sync(~0u, is_begun));
  };
  const int32_t stride = ceil_div(num_parts, kWarp);
  const int32_t first = stride * (count_begun(stride * lane_idx(), true) - 1);
  return first + count_begun(first + lane_idx(), lane_idx() < stride) - 1;
}

// Lane r: where row `row` of the part comes from; source -1 if the part has no such row.
__device__ inline RowOrigin find_origin(const CtaView& cta, const Part& part, int32_t row) {
  if (row >= part.num_rows) return {.source = -1, .token = 0, .k = 0};
  const RoutePlace place = locate_row(cta.rank.rows, part.expert, part.first_row + row);
  const int32_t pair = cta.self.group.heap.at(place.source, cta.params.routes.pairs)[place.index];
  const int32_t topk = cta.rank.routing.topk;
  return {.source = place.source, .token = pair / topk, .k = pair % topk};
}

// A run of rows of one tile, and what a warp knows of it.
struct Piece {
  int32_t tile = 0;
  std::byte* pool = nullptr;  // where its first row goes
  RowOrigin origin;           // lane r: of row r
};

// One warp: writes down where the rows of the piece come from.
__device__ inline Piece find_piece(const CtaView& cta, int32_t index) {
  const WorkListView& work = cta.rank.work;
  Piece piece;
  piece.tile = index / kTilePieces;
  const int32_t first = index % kTilePieces * kPieceRows;
  const Part& part = work.parts[find_part(work, piece.tile)];
  const int64_t pool_row = int64_t{piece.tile % cta.params.pool_tiles} * kTileRows + first;
  piece.pool =
      reinterpret_cast<std::byte*>(cta.space(cta.params.space.x) + pool_row * cta.params.hidden);
  const int32_t lane = lane_idx();
  if (lane < kPieceRows) {
    const int32_t part_row = (piece.tile - part.first_tile) * kTileRows + first + lane;
    piece.origin = find_origin(cta, part, part_row);
    cta.space(cta.params.space.origins)[int64_t{piece.tile} * kTileRows + first + lane] =
        piece.origin;
  }
  return piece;
}

// Calls copy(to, from, bytes) or clear(to, bytes) for each row, all lanes together.
template <class Copy, class Clear>
__device__ __forceinline__ void visit_rows(const CtaView& cta, const Piece& piece, Copy&& copy,
                                           Clear&& clear) {
  const uint32_t row_bytes = static_cast<uint32_t>(cta.params.hidden * sizeof(Bf16));
  const auto* const x = reinterpret_cast<const std::byte*>(cta.rank.x);
#pragma unroll 1
  for (int32_t row = 0; row < kPieceRows; ++row) {
    const int32_t source = __shfl_sync(~0u, piece.origin.source, row);
    const int32_t token = __shfl_sync(~0u, piece.origin.token, row);
    std::byte* const to = piece.pool + int64_t{row} * row_bytes;
    if (source < 0) {
      clear(to, row_bytes);
    } else {
      copy(to, x + int64_t{token} * row_bytes, row_bytes);
    }
  }
}

// One warp: zeros.
__device__ __forceinline__ void clear_row(std::byte* row, uint32_t row_bytes) {
  constexpr uint32_t kVector = sizeof(uint4);
  for (uint32_t at = kVector * lane_idx(); at < row_bytes; at += kVector * kWarp) {
    *reinterpret_cast<uint4*>(row + at) = uint4{0, 0, 0, 0};
  }
}

// One warp with registers to spare: 8 KB on their way at a time.
__device__ __forceinline__ void copy_row(std::byte* to, const std::byte* from, uint32_t row_bytes) {
  constexpr uint32_t kVector = sizeof(uint4), kAtOnce = 16;
#pragma unroll 1
  for (uint32_t at = kVector * lane_idx(); at < row_bytes; at += kAtOnce * kVector * kWarp) {
    uint4 values[kAtOnce];
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint32_t place = at + u * kVector * kWarp;
      if (place < row_bytes) values[u] = *reinterpret_cast<const uint4*>(from + place);
    }
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint32_t place = at + u * kVector * kWarp;
      if (place < row_bytes) *reinterpret_cast<uint4*>(to + place) = values[u];
    }
  }
}

// Pieces that math warps bring, one each at most: those of the tiles that the first tasks of all
// CTAs are about, as far as none would wait for a place.
__device__ __forceinline__ int32_t num_first_pieces(const CtaView& cta) {
  const ForwardParams& params = cta.params;
  const int32_t num_warps = cta.self.num_ctas * kMathGroups * kWarpgroupWarps;
  const int32_t num_wanted = ceil_div(cta.self.num_ctas, params.fc1_columns) + params.unit_tiles;
  const int32_t num_tiles =
      min(num_wanted, min(cta.rank.work.header->num_tiles, params.pool_tiles));
  return min(num_warps, num_tiles * kTilePieces);
}

// One math warp, the `warp`th of its CTA's.
__device__ inline void bring_first_rows(const CtaView& cta, int32_t warp, Tracer& tracer) {
  const int32_t index = warp * cta.self.num_ctas + cta.self.cta;
  if (index >= num_first_pieces(cta)) return;
  tracer.begin();
  const Piece piece = find_piece(cta, index);
  visit_rows(cta, piece, copy_row, clear_row);
  __syncwarp();
  if (lane_idx() == 0) count_tile(cta, cta.params.fields.x_full, piece.tile, kPieceRows);
  tracer.end(TraceKind::kBring, piece.tile);
}

// A puller that lane 0 alone makes and uses.
union LanePuller {
  __device__ LanePuller() {}
  TokenPuller puller;
};

// The comm warps of all CTAs of the rank share its other pieces evenly; neighbouring pieces go to
// different CTAs.
__device__ inline void bring_rows(const CtaView& cta, Tracer& tracer) {
  const int32_t num_pieces = cta.rank.work.header->num_tiles * kTilePieces;
  LanePuller lane_puller;
  TokenPuller& puller = lane_puller.puller;
  if (lane_idx() == 0) new (&puller) TokenPuller(cta.shared.ring);
  const auto copy = [&](std::byte* to, const std::byte* from, uint32_t bytes) {
    if (lane_idx() != 0) return;
    for (uint32_t at = 0; at < bytes; at += kChunkBytes) {
      puller.push(to + at, from + at, min(kChunkBytes, bytes - at));
    }
  };
  for (int32_t index = num_first_pieces(cta) + cta.self.cta; index < num_pieces;
       index += cta.self.num_ctas) {
    tracer.begin();
    bool is_free = true;
    if (lane_idx() == 0) is_free = await_place(cta, index / kTilePieces);
    if (!__shfl_sync(~0u, is_free, 0)) return;
    __syncwarp();  // what lane 0 has acquired holds for the others
    const Piece piece = find_piece(cta, index);
    if (lane_idx() == 0) puller.begin();
    visit_rows(cta, piece, copy, clear_row);
    if (lane_idx() == 0) puller.finish();
    __syncwarp();
    if (lane_idx() == 0) count_tile(cta, cta.params.fields.x_full, piece.tile, kPieceRows);
    tracer.end(TraceKind::kBring, piece.tile);
  }
}

}  // namespace megaflux::mega
