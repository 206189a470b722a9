// Role comm, first half: the comm warp of each CTA brings what stands in the pull list: rows into
// the pool, from the tokens of all ranks, and weights of replicas into their slots, from their
// owners. Math warps bring the first rows, which they would wait for. Waits for places of a ring
// (await_place); signals x_full, w1_ready and w2_ready.
//
// All of it is pulled: the other ranks do nothing but leave it where it is until the launch ends.
#pragma once

#include "megaflux/comm/row_map_device.cuh"
#include "megaflux/layer/mega/readiness_device.cuh"

namespace megaflux::mega {

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
// it lies now, null for what becomes zeros.
__device__ inline const Bf16* find_row(const CtaView& cta, int32_t index) {
  const int32_t tile = index / kTilePieces;
  const int32_t row = index % kTilePieces * kPieceRows + lane_idx() % kPieceRows;
  const RowOrigin origin = find_origin(cta, tile, row);
  cta.space(cta.params.space.origins)[int64_t{tile} * kTileRows + row] = origin;
  const bool is_dropped = cta.params.fault == Fault::kDropRow && tile == 0 && row == 0;
  if (origin.source < 0 || is_dropped) return nullptr;
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

// Calls copy(to, from) for each row of a piece, all lanes together, or writes zeros. Lane
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
  const int32_t num_rows = min(num_warps, num_tiles * kTilePieces);
  return cta.pulled().num_runs == 0 ? num_rows : min(num_rows, cta.space(params.space.runs)->begin);
}

// A word and what it counts up by.
struct Count {
  uint32_t* word = nullptr;
  uint32_t amount = 0;
};

// That the rows of a piece have arrived.
__device__ __forceinline__ Count count_of_rows(const CtaView& cta, int32_t tile) {
  return {cta.counter(cta.params.fields.x_full) + tile,
          cta.params.fault == Fault::kLostFlag ? 0u : uint32_t{kPieceRows}};
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
  const Count rows = count_of_rows(cta, tile);
  if (lane_idx() == 0) count_signal<kRankScope>(cta.self, rows.word, rows.amount);
  tracer.end(TraceKind::kBring, tile);
}

// Lane 0 of a comm warp: moves pieces, and counts one once it is in place, which it waits for while
// the next one is on its way.
class PieceMover {
 public:
  __device__ __forceinline__ explicit PieceMover(const CtaView& cta)
      : cta_(cta), puller_(cta.shared.ring, lane_idx() == 0) {}

  // False: the group has aborted. In a ring nothing is held back before the wait for a place, which
  // may depend on it.
  __device__ __forceinline__ bool begin_rows(int32_t tile) {
    if (tile >= cta_.params.pool_tiles) settle();
    const bool is_free = await_place(cta_, tile);
    puller_.begin();
    return is_free;
  }
  __device__ __forceinline__ void copy(void* target, const void* source, uint32_t bytes) {
    auto* const to = static_cast<std::byte*>(target);
    const auto* const from = static_cast<const std::byte*>(source);
#pragma unroll 1
    for (uint32_t at = 0; at < bytes; at += kChunkBytes) {
      puller_.push(to + at, from + at, min(kChunkBytes, bytes - at));
      if (moving_.word != nullptr && static_cast<int32_t>(puller_.num_landed() - end_) >= 0) {
        settle();
      }
    }
  }
  // Behind a __syncwarp: what other lanes wrote is counted with the rest.
  __device__ __forceinline__ void end(const Count& count) {
    settle();
    moving_ = count;
    end_ = puller_.num_pushed();
  }
  // Counts the piece that ended last.
  __device__ __forceinline__ void settle() {
    if (moving_.word == nullptr) return;
    puller_.settle(end_);
    count_signal<kRankScope>(cta_.self, moving_.word, moving_.amount);
    moving_.word = nullptr;
  }

 private:
  const CtaView& cta_;
  TokenPuller puller_;
  Count moving_;      // of a piece that ended and is not counted yet; no word = none
  uint32_t end_ = 0;  // its last chunk is the one before
};

// The runs of weights in the pull list, one a lane.
class LaneRuns {
 public:
  __device__ __forceinline__ explicit LaneRuns(const CtaView& cta)
      : num_runs_(cta.pulled().num_runs) {
    if (lane_idx() < num_runs_) mine_ = cta.space(cta.params.space.runs)[lane_idx()];
  }
  // One warp.
  __device__ __forceinline__ PulledPiece piece_at(int32_t position) const {
    if (num_runs_ == 0) return {-1, position};
    const bool is_begun = lane_idx() < num_runs_ && mine_.begin <= position;
    const int32_t last = __popc(__ballot_sync(~0u, is_begun)) - 1;
    return megaflux::piece_at(position, last, run(max(last, 0)));
  }
  __device__ __forceinline__ WeightRun run(int32_t index) const {
    WeightRun run;
    run.begin = __shfl_sync(~0u, mine_.begin, index);
    run.num_pieces = __shfl_sync(~0u, mine_.num_pieces, index);
    run.before = __shfl_sync(~0u, mine_.before, index);
    run.expert = static_cast<uint16_t>(__shfl_sync(~0u, uint32_t{mine_.expert}, index));
    run.slot = static_cast<uint8_t>(__shfl_sync(~0u, uint32_t{mine_.slot}, index));
    run.matrix = static_cast<Matrix>(__shfl_sync(~0u, static_cast<uint32_t>(mine_.matrix), index));
    return run;
  }

 private:
  int32_t num_runs_;
  WeightRun mine_;
};

// Lane 0: a piece of a replica's weights, with the biases of its rows.
__device__ inline void bring_weights(const CtaView& cta, PieceMover& mover, const WeightRun& run,
                                     int32_t index) {
  const ForwardParams& params = cta.params;
  const bool is_w1 = run.matrix == Matrix::kW1;
  const WeightCut& cut = params.cuts[is_w1 ? 0 : 1];
  const PieceCopy piece =
      locate_piece(cut, run.matrix, index, cta.rank.slots, run.slot, params.sources[run.expert]);
  mover.copy(piece.to, piece.from, piece.bytes);
  mover.copy(piece.biases_to, piece.biases_from, piece.bias_bytes);
  const CounterField ready = is_w1 ? params.fields.w1_ready : params.fields.w2_ready;
  mover.end({cta.counter(ready) + run.slot * cut.num_tiles() + piece.tile, 1});
}

// One warp: rows of the lanes from `first_lane` on. False: the group has aborted.
__device__ __forceinline__ bool bring_piece(const CtaView& cta, PieceMover& mover, int32_t index,
                                            const Bf16* row, int32_t first_lane) {
  const bool is_mover = lane_idx() == 0;
  const int32_t tile = index / kTilePieces;
  const bool is_free = !is_mover || mover.begin_rows(tile);
  if (!__shfl_sync(~0u, is_free, 0)) return false;
  __syncwarp();  // what lane 0 has acquired holds for the others
  const uint32_t row_bytes = static_cast<uint32_t>(cta.params.hidden) * uint32_t{sizeof(Bf16)};
  visit_rows(cta, index, row, first_lane, [&](Bf16* to, const Bf16* from) {
    if (is_mover) mover.copy(to, from, row_bytes);
  });
  __syncwarp();
  if (is_mover) mover.end(count_of_rows(cta, tile));
  return true;
}

// The comm warps of all CTAs of the rank share its other pieces evenly; neighbouring pieces go to
// different CTAs.
__device__ inline void bring_list(const CtaView& cta, Tracer& tracer) {
  const int32_t num_row_pieces = cta.work().num_tiles * kTilePieces;
  const int32_t num_pieces = num_row_pieces + cta.pulled().num_weights;
  const int32_t stride = cta.self.num_ctas, group = lane_idx() / kPieceRows;
  const LaneRuns runs(cta);
  PieceMover mover(cta);
  for (int32_t first = num_first_pieces(cta) + cta.self.cta; first < num_pieces;
       first += kPiecesAtOnce * stride) {
    const int32_t num_here = min(kPiecesAtOnce, ceil_div(num_pieces - first, stride));
    PulledPiece mine;
#pragma unroll 1
    for (int32_t u = 0; u < num_here; ++u) {
      const PulledPiece piece = runs.piece_at(first + u * stride);
      if (u == group) mine = piece;
    }
    const bool has_row = group < num_here && mine.run < 0;
    const Bf16* const row = has_row ? find_row(cta, mine.index) : nullptr;
#pragma unroll 1
    for (int32_t u = 0; u < num_here; ++u) {
      const int32_t run_idx = __shfl_sync(~0u, mine.run, u * kPieceRows);
      const int32_t index = __shfl_sync(~0u, mine.index, u * kPieceRows);
      tracer.begin();
      if (run_idx < 0) {
        if (!bring_piece(cta, mover, index, row, u * kPieceRows)) return;
        tracer.end(TraceKind::kBring, index / kTilePieces);
      } else {
        const WeightRun run = runs.run(run_idx);
        if (lane_idx() == 0) bring_weights(cta, mover, run, index);
        tracer.end(TraceKind::kWeights, 2 * run.slot + static_cast<int32_t>(run.matrix));
      }
    }
  }
  if (lane_idx() == 0) mover.settle();
}

}  // namespace megaflux::mega
