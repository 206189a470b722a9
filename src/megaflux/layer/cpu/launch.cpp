#include "megaflux/layer/cpu/launch.h"

#include <cstring>

#include "megaflux/base/math.h"
#include "megaflux/comm/signal.h"
#include "megaflux/comm/wait.h"
#include "megaflux/layer/cpu/vector_loops.h"

namespace megaflux {
namespace {

// Weights of a part once `ready` says that the matrix has arrived.
ExpertWeights await_weights(const RoleView& view, const Part& part, Field<uint32_t> ready,
                            WaitTag tag) {
  const RankWorkspace& ws = view.ws;
  if (!part.is_replica) return owned_expert(view.shape(), view.launch.weights, part.weight_slot);
  const int32_t slot = part.weight_slot - ws.num_owned;
  wait_for(view.ctx, {.tag = tag,
                      .word = view.ctx.heap.at(view.ctx.rank, ready) + slot,
                      .expected = view.ctx.epoch,
                      .index = slot});
  return ws.slots.expert_in(slot);
}

void start_report(const RoleView& view) {
  RankReport& report = view.ws.report;
  report.clear(view.ctx.num_ranks);
  report.tiles = view.launch.work->num_tiles();
  report.rounds = ceil_div(report.tiles, view.ws.pool.num_tiles());
}

}  // namespace

void begin_launch(const RoleView& view) {
  RankContext& ctx = view.ctx;
  const Launch& launch = view.launch;
  start_report(view);
  *ctx.heap.at(ctx.rank, view.ws.fields.inputs) = {.x = launch.x,
                                                   .dy = launch.dy,
                                                   .topk_weights = launch.routing.topk_weights,
                                                   .weights = launch.weights};
  if (!launch.has_route_list) {
    build_route_list(launch.routing, launch.loads->rows_of_source(ctx.rank),
                     ctx.heap.span_of(ctx.rank, view.ws.fields.routes.offsets),
                     ctx.heap.span_of(ctx.rank, view.ws.fields.routes.pairs));
  }
  enter(ctx, launch.words);
}

ExpertWeights await_part_w1(const RoleView& view, const Part& part) {
  return await_weights(view, part, view.ws.fields.w1_ready, WaitTag::kW1Ready);
}

ExpertWeights await_part_w2(const RoleView& view, const Part& part) {
  return await_weights(view, part, view.ws.fields.w2_ready, WaitTag::kW2Ready);
}

const void* weight_operand(const RoleView& view, const Part& part, WeightUse use, const void* raw) {
  RankWorkspace& ws = view.ws;
  const PackTag tag{
      .layer = view.launch.words.layer,
      .expert = part.expert,
      .version = view.launch.weight_version,
      .arrival = part.is_replica ? ws.slot_arrivals[part.weight_slot - ws.num_owned] : 0};
  return ws.packs.operand(use, part.weight_slot, tag, raw);
}

const void* row_operand(const RoleView& view, const std::byte* pool_rows,
                        const HostBuffer& staged) {
  if (staged.bytes() == 0) return pool_rows;
  const int64_t count = int64_t{kTileRows} * view.shape().hidden;
  if (view.shape().dtype == operand_dtype(view.ws.config.gemm)) {
    std::memcpy(staged.data(), pool_rows,
                static_cast<size_t>(count * dtype_bytes(view.shape().dtype)));
  } else {
    widen(reinterpret_cast<const Bf16*>(pool_rows), staged.as<float>(), count);
  }
  return staged.data();
}

void await_rows(const RoleView& view, const Tile& tile) {
  // Peers wait for what this rank then does not do; the flag that is lost shall be the one named.
  wait_for(view.ctx, {.tag = WaitTag::kXFull,
                      .word = view.counter(view.ws.fields.tiles_pulled),
                      .expected = static_cast<uint32_t>(tile.index) + 1,
                      .index = tile.index,
                      .is_impatient = view.launch.fault == Fault::kLostFlag});
}

void finish_tile(const RoleView& view, const Tile& tile) {
  RankReport& report = view.ws.report;
  report.rows += tile.num_rows;
  if (view.launch.work->parts()[tile.part_idx].is_replica) report.rows_from_slots += tile.num_rows;
  add_signal(view.ctx, view.counter(view.ws.fields.tiles_done), 1);
}

void push_result(const RoleView& view, const RowOrigin& origin, const float* row) {
  const LayerShape& shape = view.shape();
  const RankContext& ctx = view.ctx;
  const LayerFields& fields = view.ws.fields;
  const int64_t row_bytes = shape.hidden * dtype_bytes(shape.dtype);
  const int64_t pair = int64_t{origin.token} * shape.topk + origin.k;
  std::byte* result = ctx.heap.at(origin.source, fields.results) + pair * row_bytes;
  if (shape.dtype == DType::kBf16) {
    narrow(row, reinterpret_cast<Bf16*>(result), shape.hidden);
  } else {
    std::memcpy(result, row, static_cast<size_t>(row_bytes));
  }
  add_signal(ctx,
             ctx.heap.at(origin.source, fields.y_count, ctx.epoch) + origin.token / kTokenGroup, 1);
  if (origin.source == ctx.rank) return;
  view.ws.report.add(Traffic::kCombine, origin.source, row_bytes);
}

}  // namespace megaflux
