// Role comm, first half: the comm warp of each CTA brings rows into the pool, tile by tile in list
// order. Waits for places of a ring (await_place); signals x_full.
#pragma once

#include <new>

#include "megaflux/layer/mega/readiness_device.cuh"

namespace megaflux::mega {

inline constexpr int32_t kPieceRows = 4;  // rows that a warp brings at a time
inline constexpr int32_t kTilePieces = kTileRows / kPieceRows;

// One warp: the part that holds `tile`, not before `part`.
__device__ inline int32_t find_part(const WorkListView& work, int32_t part, int32_t tile) {
  const int32_t num_parts = work.header->num_parts;
  for (;;) {
    const int32_t candidate = part + 1 + lane_idx();
    const bool is_begun = candidate < num_parts && work.parts[candidate].first_tile <= tile;
    const int32_t num_begun = __popc(__ballot_sync(~0u, is_begun));
    part += num_begun;
    if (num_begun < kWarp) return part;
  }
}

// Lane r: where row `row` of the part comes from; source -1 if the part has no such row.
__device__ inline RowOrigin find_origin(const CtaView& cta, const Part& part, int32_t row) {
  if (row >= part.num_rows) return {.source = -1, .token = 0, .k = 0};
  const RoutePlace place = locate_row(cta.rank.rows, part.expert, part.first_row + row);
  const int32_t pair = cta.self.group.heap.at(place.source, cta.params.routes.pairs)[place.index];
  const int32_t topk = cta.rank.routing.topk;
  return {.source = place.source, .token = pair / topk, .k = pair % topk};
}

__device__ __forceinline__ void clear_row(std::byte* row, int32_t row_bytes) {
  constexpr int32_t kVector = sizeof(uint4);
  for (int32_t at = kVector * lane_idx(); at < row_bytes; at += kVector * kWarp) {
    *reinterpret_cast<uint4*>(row + at) = uint4{0, 0, 0, 0};
  }
}

// One warp: rows [first, first + kPieceRows) of a tile, which begins at row `tile_row` of its part.
__device__ inline void bring_piece(const CtaView& cta, const Part& part, int32_t tile,
                                   int32_t first, TokenPuller& puller) {
  const int32_t part_row = (tile - part.first_tile) * kTileRows + first;
  const int32_t lane = lane_idx();
  RowOrigin mine;
  if (lane < kPieceRows) {
    mine = find_origin(cta, part, part_row + lane);
    cta.space(cta.params.space.origins)[int64_t{tile} * kTileRows + first + lane] = mine;
  }
  const uint32_t row_bytes = static_cast<uint32_t>(cta.params.hidden * sizeof(Bf16));
  const int64_t pool_row = int64_t{tile % cta.params.pool_tiles} * kTileRows + first;
  std::byte* const pool =
      reinterpret_cast<std::byte*>(cta.space(cta.params.space.x) + pool_row * cta.params.hidden);
  const auto* const x = reinterpret_cast<const std::byte*>(cta.rank.x);
  for (int32_t row = 0; row < kPieceRows; ++row) {
    const int32_t source = __shfl_sync(~0u, mine.source, row);
    const int32_t token = __shfl_sync(~0u, mine.token, row);
    std::byte* const to = pool + int64_t{row} * row_bytes;
    if (source < 0) {
      clear_row(to, row_bytes);
    } else if (lane == 0) {
      const std::byte* const from = x + int64_t{token} * row_bytes;
      for (uint32_t at = 0; at < row_bytes; at += kChunkBytes) {
        puller.push(to + at, from + at, min(kChunkBytes, row_bytes - at));
      }
    }
  }
}

// A puller that lane 0 alone makes and uses.
union LanePuller {
  __device__ LanePuller() {}
  TokenPuller puller;
};

// The comm warps of all CTAs of the rank share its pieces evenly; neighbouring pieces go to
// different CTAs.
__device__ inline void bring_rows(const CtaView& cta, Tracer& tracer) {
  const WorkListView& work = cta.rank.work;
  const int32_t num_pieces = work.header->num_tiles * kTilePieces;
  LanePuller lane_puller;
  TokenPuller& puller = lane_puller.puller;
  if (lane_idx() == 0) new (&puller) TokenPuller(cta.shared.ring);
  int32_t part = 0;
  for (int32_t piece = cta.self.cta; piece < num_pieces; piece += cta.self.num_ctas) {
    const int32_t tile = piece / kTilePieces;
    tracer.begin();
    part = find_part(work, part, tile);
    bool is_free = true;
    if (lane_idx() == 0) is_free = await_place(cta, tile);
    __syncwarp();  // a shuffle orders no memory, and all lanes clear padding rows
    if (!__shfl_sync(~0u, is_free, 0)) return;
    if (lane_idx() == 0) puller.begin();
    bring_piece(cta, work.parts[part], tile, piece % kTilePieces * kPieceRows, puller);
    if (lane_idx() == 0) puller.finish();
    __syncwarp();
    if (lane_idx() == 0) count_tile(cta, cta.params.fields.x_full, tile, kPieceRows);
    tracer.end(TraceKind::kBring, tile);
  }
}

}  // namespace megaflux::mega
