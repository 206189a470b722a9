// Role comm, first half: the comm warp of each CTA brings rows into the pool, tile by tile in list
// order, from the tokens of all ranks. Math warps bring the first ones, which they would wait for.
// Waits for places of a ring (await_place); signals x_full.
//
// Rows are pulled: their sources do nothing but stay where they are until the launch ends.
#pragma once

#include <new>

#include "megaflux/comm/row_map_device.cuh"
#include "megaflux/layer/mega/readiness_device.cuh"

namespace megaflux::mega {

inline constexpr int32_t kPieceRows = 4;  // rows that are counted together
inline constexpr int32_t kTilePieces = kTileRows / kPieceRows;
inline constexpr int32_t kPiecesAtOnce = kWarp / kPieceRows;  // looked up together, a lane a row

// The part that holds `tile`.
__device__ inline const Part& find_part(const CtaView& cta, int32_t tile) {
  const Part* const parts = cta.parts();
  int32_t part = 0, above = cta.work().num_parts;  // begins at or before the tile; behind it
#pragma unroll 1
  while (above - part > 1) {
    const int32_t middle = (part + above) / 2;
    if (parts[middle].first_tile <= tile) {
      part = middle;
    } else {
      above = middle;
    }
  }
  return parts[part];
}

__device__ __forceinline__ RowMapView row_map(const CtaView& cta) {
  const PlannedFields& planned = cta.params.planned;
  return {.source_begin = cta.self.own(planned.source_begin),
          .route_offsets = cta.self.own(planned.route_offsets),
          .num_ranks = cta.self.num_ranks(),
          .num_experts = cta.params.num_experts};
}

// Where row `row` of the tile comes from; source -1 if the tile has no such row.
__device__ inline RowOrigin find_origin(const CtaView& cta, int32_t tile, int32_t row) {
  const Part& part = find_part(cta, tile);
  const int32_t part_row = (tile - part.first_tile) * kTileRows + row;
  if (part_row >= part.num_rows) return {.source = -1, .token = 0, .k = 0};
  const RoutePlace place = locate_row(row_map(cta), part.expert, part.first_row + part_row);
  const Field<int32_t> pairs = cta.params.planned.routes.pairs;
  const int32_t pair = cta.self.group.heap.at(place.source, pairs)[place.index];
  const int32_t topk = cta.rank.routing.topk;
  return {.source = place.source, .token = pair / topk, .k = pair % topk};
}

// The row of piece `index` that is this lane's: writes down where it comes from, and returns where
// it lies now, null for padding.
__device__ inline const Bf16* find_row(const CtaView& cta, int32_t index) {
  const int32_t tile = index / kTilePieces;
  const int32_t row = index % kTilePieces * kPieceRows + lane_idx() % kPieceRows;
  const RowOrigin origin = find_origin(cta, tile, row);
  cta.space(cta.params.space.origins)[int64_t{tile} * kTileRows + row] = origin;
  if (origin.source < 0) return nullptr;
  const Bf16* const x = origin.source == cta.self.rank
                            ? cta.rank.x
                            : cta.self.group.heap.at(origin.source, cta.params.fields.tokens);
  return x + int64_t{origin.token} * cta.params.hidden;
}

// Where the first row of a piece goes.
__device__ __forceinline__ Bf16* piece_in_pool(const CtaView& cta, int32_t index) {
  const int32_t place = index / kTilePieces % cta.params.pool_tiles;
  const int64_t row = int64_t{place} * kTileRows + index % kTilePieces * kPieceRows;
  return cta.space(cta.params.space.x) + row * cta.params.hidden;
}

// One warp: zeros.
__device__ __forceinline__ void clear_row(Bf16* row, int32_t hidden) {
  auto* const to = reinterpret_cast<uint4*>(row);
  for (int32_t i = lane_idx(); i < hidden / 8; i += kWarp) to[i] = uint4{0, 0, 0, 0};
}

// One warp with registers to spare: 8 KB on their way at a time.
__device__ __forceinline__ void copy_row(Bf16* row, const Bf16* source, int32_t hidden) {
  constexpr int32_t kAtOnce = 16;
  auto* const to = reinterpret_cast<uint4*>(row);
  const auto* const from = reinterpret_cast<const uint4*>(source);
  const int32_t num_vectors = hidden / 8;
#pragma unroll 1
  for (int32_t first = lane_idx(); first < num_vectors; first += kAtOnce * kWarp) {
    uint4 values[kAtOnce];
#pragma unroll
    for (int32_t u = 0; u < kAtOnce; ++u) {
      if (first + u * kWarp < num_vectors) values[u] = from[first + u * kWarp];
    }
#pragma unroll
    for (int32_t u = 0; u < kAtOnce; ++u) {
      if (first + u * kWarp < num_vectors) to[first + u * kWarp] = values[u];
    }
  }
}

// Calls copy(to, from) for each row of a piece, all lanes together; padding becomes zeros. Lane
// first_lane + r has where row r lies.
template <class Copy>
__device__ __forceinline__ void visit_rows(const CtaView& cta, int32_t index, const Bf16* row,
                                           int32_t first_lane, Copy&& copy) {
  const int32_t hidden = cta.params.hidden;
  Bf16* to = piece_in_pool(cta, index);
#pragma unroll 1
  for (int32_t r = 0; r < kPieceRows; ++r, to += hidden) {
    const auto address = reinterpret_cast<uint64_t>(row);
    const auto* const from =
        reinterpret_cast<const Bf16*>(__shfl_sync(~0u, address, first_lane + r));
    if (from == nullptr) {
      clear_row(to, hidden);
    } else {
      copy(to, from);
    }
  }
}

// Pieces that math warps bring, one each at most: those of the tiles that the first tasks of all
// CTAs are about, as far as none would wait for a place.
__device__ __forceinline__ int32_t num_first_pieces(const CtaView& cta) {
  const ForwardParams& params = cta.params;
  const int32_t num_warps = cta.self.num_ctas * kMathGroups * kWarpgroupWarps;
  const int32_t num_wanted = ceil_div(cta.self.num_ctas, params.fc1_columns) + params.unit_tiles;
  const int32_t num_tiles = min(num_wanted, min(cta.work().num_tiles, params.pool_tiles));
  return min(num_warps, num_tiles * kTilePieces);
}

// One math warp, the `warp`th of its CTA's.
__device__ inline void bring_first_rows(const CtaView& cta, int32_t warp, Tracer& tracer) {
  const int32_t index = warp * cta.self.num_ctas + cta.self.cta;
  if (index >= num_first_pieces(cta)) return;
  tracer.begin();
  const Bf16* const row = lane_idx() < kPieceRows ? find_row(cta, index) : nullptr;
  visit_rows(cta, index, row, 0,
             [&](Bf16* to, const Bf16* from) { copy_row(to, from, cta.params.hidden); });
  __syncwarp();
  const int32_t tile = index / kTilePieces;
  if (lane_idx() == 0) count_tile(cta, cta.params.fields.x_full, tile, kPieceRows);
  tracer.end(TraceKind::kBring, tile);
}

// Lane 0 of a comm warp: moves rows, and counts a piece once it is in place, which it waits for
// while the next one is on its way.
class RowMover {
 public:
  __device__ __forceinline__ explicit RowMover(const CtaView& cta)
      : cta_(cta), puller_(cta.shared.ring) {}

  // False: the group has aborted. In a ring nothing is held back before the wait for a place, which
  // may depend on it.
  __device__ __forceinline__ bool begin(int32_t tile) {
    if (tile >= cta_.params.pool_tiles) settle();
    const bool is_free = await_place(cta_, tile);
    puller_.begin();
    return is_free;
  }
  __device__ __forceinline__ void copy(Bf16* row, const Bf16* source, int32_t hidden) {
    const uint32_t row_bytes = static_cast<uint32_t>(hidden) * uint32_t{sizeof(Bf16)};
    auto* const to = reinterpret_cast<std::byte*>(row);
    const auto* const from = reinterpret_cast<const std::byte*>(source);
#pragma unroll 1
    for (uint32_t at = 0; at < row_bytes; at += kChunkBytes) {
      puller_.push(to + at, from + at, min(kChunkBytes, row_bytes - at));
      if (moving_ >= 0 && static_cast<int32_t>(puller_.num_landed() - end_) >= 0) settle();
    }
  }
  // Behind a __syncwarp: what other lanes cleared is counted with the rest.
  __device__ __forceinline__ void end(int32_t tile) {
    settle();
    moving_ = tile;
    end_ = puller_.num_pushed();
  }
  // Counts the piece that ended last.
  __device__ __forceinline__ void settle() {
    if (moving_ < 0) return;
    puller_.settle(end_);
    count_tile(cta_, cta_.params.fields.x_full, moving_, kPieceRows);
    moving_ = -1;
  }

 private:
  const CtaView& cta_;
  TokenPuller puller_;
  int32_t moving_ = -1;  // tile of a piece that ended and is not counted yet; -1 = none
  uint32_t end_ = 0;     // its last chunk is the one before
};

// The comm warps of all CTAs of the rank share its other pieces evenly; neighbouring pieces go to
// different CTAs.
__device__ inline void bring_rows(const CtaView& cta, Tracer& tracer) {
  const int32_t num_pieces = cta.work().num_tiles * kTilePieces, stride = cta.self.num_ctas;
  const bool is_mover = lane_idx() == 0;
  RowMover mover(cta);
  const auto copy = [&](Bf16* to, const Bf16* from) {
    if (is_mover) mover.copy(to, from, cta.params.hidden);
  };
  for (int32_t first = num_first_pieces(cta) + cta.self.cta; first < num_pieces;
       first += kPiecesAtOnce * stride) {
    const int32_t mine = first + lane_idx() / kPieceRows * stride;
    const Bf16* const row = mine < num_pieces ? find_row(cta, mine) : nullptr;
    const int32_t num_here = min(kPiecesAtOnce, ceil_div(num_pieces - first, stride));
#pragma unroll 1
    for (int32_t piece = 0; piece < num_here; ++piece) {
      const int32_t index = first + piece * stride, tile = index / kTilePieces;
      tracer.begin();
      const bool is_free = !is_mover || mover.begin(tile);
      if (!__shfl_sync(~0u, is_free, 0)) return;
      __syncwarp();  // what lane 0 has acquired holds for the others
      visit_rows(cta, index, row, piece * kPieceRows, copy);
      __syncwarp();
      if (is_mover) mover.end(tile);
      tracer.end(TraceKind::kBring, tile);
    }
  }
  if (is_mover) mover.settle();
}

}  // namespace megaflux::mega
