#include "megaflux/layer/cpu/dispatch.h"

#include <algorithm>
#include <cstring>

#include "megaflux/comm/signal.h"
#include "megaflux/comm/wait.h"

namespace megaflux {
namespace {

// Tiles whose rows come before any weights: enough for the compute role to start.
constexpr int32_t kFirstTiles = 4;

void pull_row(const RoleView& view, const RowOrigin& origin, int32_t tile_idx, int32_t r) {
  RowPool& pool = view.ws.pool;
  const auto row_bytes = static_cast<size_t>(pool.row_bytes());
  const PublishedInputs& source = view.inputs_of(origin.source);
  const size_t offset = static_cast<size_t>(origin.token) * row_bytes;
  std::memcpy(pool.x(tile_idx) + r * row_bytes, static_cast<const std::byte*>(source.x) + offset,
              row_bytes);
  auto moved = static_cast<int64_t>(row_bytes);
  if (view.is_backward()) {
    std::memcpy(pool.dy(tile_idx) + r * row_bytes,
                static_cast<const std::byte*>(source.dy) + offset, row_bytes);
    pool.p(tile_idx)[r] = source.topk_weights[int64_t{origin.token} * view.shape().topk + origin.k];
    moved = 2 * moved + int64_t{sizeof(float)};
  }
  if (origin.source != view.ctx.rank) {
    view.ws.report.add(Traffic::kDispatch, origin.source, moved);
  }
}

// Zeroes rows [first, last) of a pool tile: no GEMM may see what an older launch left there.
void clear_rows(const RoleView& view, int32_t tile_idx, int32_t first, int32_t last) {
  RowPool& pool = view.ws.pool;
  const auto row_bytes = static_cast<size_t>(pool.row_bytes());
  const size_t bytes = static_cast<size_t>(last - first) * row_bytes;
  std::memset(pool.x(tile_idx) + first * row_bytes, 0, bytes);
  if (!view.is_backward()) return;
  std::memset(pool.dy(tile_idx) + first * row_bytes, 0, bytes);
  std::fill(pool.p(tile_idx) + first, pool.p(tile_idx) + last, 0.0f);
}

void pull_tile(const RoleView& view, const Tile& tile) {
  RankWorkspace& ws = view.ws;
  if (tile.index >= ws.pool.num_tiles()) {
    const int32_t last_reader = tile.index - ws.pool.num_tiles();
    wait_for(view.ctx, {.tag = WaitTag::kRingSlotFree,
                        .word = view.counter(ws.fields.tiles_done),
                        .expected = static_cast<uint32_t>(last_reader) + 1,
                        .index = last_reader});
  }
  const Part& part = view.launch.work->parts()[tile.part_idx];
  RowOrigin* origins = ws.pool.origins(tile.index);
  locate_rows(view.ctx.heap, ws.fields.routes, *view.launch.loads, part.expert, tile.first_row,
              {origins, static_cast<size_t>(tile.num_rows)});
  const int32_t first = view.launch.fault == Fault::kDropRow && tile.index == 0 ? 1 : 0;
  clear_rows(view, tile.index, 0, first);
  for (int32_t r = first; r < tile.num_rows; ++r) pull_row(view, origins[r], tile.index, r);
  clear_rows(view, tile.index, tile.num_rows, kTileRows);
  if (view.launch.fault == Fault::kLostFlag) return;
  add_signal(view.ctx, view.counter(ws.fields.tiles_pulled), 1);
}

// Weights of `expert` in its owner's memory.
ExpertWeights owner_weights(const RoleView& view, int32_t expert, int32_t& owner) {
  if (view.launch.fault == Fault::kWrongOwner) expert = (expert + 1) % view.shape().num_experts;
  owner = view.launch.plan->owner_of()[expert];
  return owned_expert(view.shape(), view.inputs_of(owner).weights, view.ws.local_index[expert]);
}

enum class Matrix : uint8_t { kW1, kW2 };

// `is_first`: the first of the two matrices of this launch.
void pull_slots(const RoleView& view, Matrix matrix, bool is_first) {
  RankWorkspace& ws = view.ws;
  const RankContext& ctx = view.ctx;
  const int32_t num_slots = ws.config.replica_slots;
  const auto slot_expert =
      view.launch.plan->slot_expert().subspan(static_cast<size_t>(ctx.rank) * num_slots, num_slots);
  const std::span<const uint8_t> is_filled = view.launch.is_slot_filled;
  const bool is_w1 = matrix == Matrix::kW1;
  const Field<uint32_t> ready = is_w1 ? ws.fields.w1_ready : ws.fields.w2_ready;
  for (int32_t slot = 0; slot < num_slots; ++slot) {
    if (slot_expert[slot] < 0) continue;
    const bool is_kept = !is_filled.empty() && is_filled[slot] != 0;
    if (!is_kept && view.launch.fault != Fault::kStaleSlot) {
      int32_t owner = 0;
      if (is_first) ++ws.slot_arrivals[slot];
      const ExpertWeights from = owner_weights(view, slot_expert[slot], owner);
      const int64_t moved = is_w1 ? ws.slots.copy_w1(slot, from) : ws.slots.copy_w2(slot, from);
      if (owner != ctx.rank) ws.report.add(Traffic::kWeights, owner, moved);
    }
    post_signal(ctx, ctx.heap.at(ctx.rank, ready) + slot, ctx.epoch);
  }
}

}  // namespace

void pull_all(const RoleView& view, MatrixOrder order) {
  const WorkList& work = *view.launch.work;
  auto next = work.begin();
  const auto pull_until = [&](int32_t end_tile) {
    for (; next != work.end() && (*next).index < end_tile; ++next) pull_tile(view, *next);
  };
  const int32_t without_wait = view.ws.pool.num_tiles();
  const bool is_w1_first = order == MatrixOrder::kW1First;
  pull_until(std::min(kFirstTiles, without_wait));
  pull_slots(view, is_w1_first ? Matrix::kW1 : Matrix::kW2, true);
  pull_until(without_wait);
  pull_slots(view, is_w1_first ? Matrix::kW2 : Matrix::kW1, false);
  pull_until(work.num_tiles());
}

}  // namespace megaflux
