#include "megaflux/layer/cpu/forward.h"

#include <cstring>

#include "megaflux/base/math.h"
#include "megaflux/layer/cpu/combine.h"
#include "megaflux/layer/cpu/dispatch.h"
#include "megaflux/layer/cpu/vector_loops.h"

namespace megaflux {
namespace {

// Saves the tile's Z, rounded to the layer's dtype, if its rows are within the store.
void save_z(const RoleView& view, const Tile& tile, const ZStore& store) {
  const LayerShape& shape = view.shape();
  const int64_t first_row = int64_t{tile.index} * kTileRows;
  if (store.data == nullptr || first_row + kTileRows > store.rows) return;
  const int64_t count = int64_t{kTileRows} * 2 * shape.inter;
  std::byte* out = store.data + first_row * 2 * shape.inter * dtype_bytes(shape.dtype);
  const float* z = view.ws.tiles.z.as<float>();
  if (shape.dtype == DType::kBf16) {
    narrow(z, reinterpret_cast<Bf16*>(out), count);
  } else {
    std::memcpy(out, z, static_cast<size_t>(count) * sizeof(float));
  }
}

void run_fc1(const RoleView& view, const Tile& tile, const ZStore& store) {
  RankWorkspace& ws = view.ws;
  const LayerShape& shape = view.shape();
  const Part& part = view.launch.work->parts()[tile.part_idx];
  await_rows(view, tile);
  compute_z(view, part, row_operand(view, ws.pool.x(tile.index), ws.tiles.x_staged));
  save_z(view, tile, store);
  OperandTile& a = ws.tiles.a[tile.index % ws.tiles.a.size()];
  const int64_t inter = shape.inter;
  const bool is_gate_first = shape.gate_order == GateOrder::kGateUp;
  for (int32_t r = 0; r < tile.num_rows; ++r) {
    const float* z = ws.tiles.z.as<float>() + r * 2 * inter;
    activate(shape.activation, z + (is_gate_first ? 0 : inter), z + (is_gate_first ? inter : 0),
             a.row(r), inter);
  }
  a.finish(tile.num_rows);
}

void run_fc2(const RoleView& view, const Tile& tile) {
  RankWorkspace& ws = view.ws;
  const LayerShape& shape = view.shape();
  const Part& part = view.launch.work->parts()[tile.part_idx];
  const ExpertWeights expert = await_part_w2(view, part);
  const OperandTile& a = ws.tiles.a[tile.index % ws.tiles.a.size()];
  float* o = ws.tiles.o.as<float>();
  ws.gemms.fc2.run(a.operand(), weight_operand(view, part, WeightUse::kFc2, expert.w2), o);
  const RowOrigin* origins = ws.pool.origins(tile.index);
  for (int32_t r = 0; r < tile.num_rows; ++r) {
    float* row = o + int64_t{r} * shape.hidden;
    if (shape.has_bias) add(expert.b2, row, shape.hidden);
    push_result(view, origins[r], row);
  }
  finish_tile(view, tile);
}

void compute_role(const RoleView& view, const ForwardLaunch& task) {
  const WorkList& work = *view.launch.work;
  const int32_t lag = view.ws.config.fc2_lag_tiles;
  auto trailing = work.begin();
  for (const Tile tile : work) {
    run_fc1(view, tile, task.z);
    if (tile.index >= lag) run_fc2(view, *trailing++);
  }
  while (trailing != work.end()) run_fc2(view, *trailing++);
}

}  // namespace

void compute_z(const RoleView& view, const Part& part, const void* x) {
  RankWorkspace& ws = view.ws;
  const LayerShape& shape = view.shape();
  const ExpertWeights expert = await_part_w1(view, part);
  float* z = ws.tiles.z.as<float>();
  ws.gemms.fc1.run(x, weight_operand(view, part, WeightUse::kFc1, expert.w1), z);
  if (!shape.has_bias) return;
  const int64_t width = int64_t{2} * shape.inter;
  for (int32_t r = 0; r < kTileRows; ++r) add(expert.b1, z + r * width, width);
}

void run_forward(RankContext& ctx, RankWorkspace& ws, const ForwardLaunch& task) {
  const RoleView view{ctx, ws, task.launch};
  const int64_t cpu_begin = thread_cpu_ns();
  if (ctx.role == Role::kComm) {
    join_entry(ctx);
    pull_all(view, MatrixOrder::kW1First);
    combine_outputs(view, task.y);
    ws.report.comm_cpu_ns = thread_cpu_ns() - cpu_begin;
    finish_comm(ctx);
    return;
  }
  const int64_t wall_begin = wall_ns();
  begin_launch(view);
  compute_role(view, task);
  ws.report.compute_cpu_ns = thread_cpu_ns() - cpu_begin;
  leave(ctx);
  ws.report.wall_ns = wall_ns() - wall_begin;
}

}  // namespace megaflux
