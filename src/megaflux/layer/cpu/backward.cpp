#include "megaflux/layer/cpu/backward.h"

#include <algorithm>
#include <cstring>

#include "megaflux/comm/wait.h"
#include "megaflux/layer/cpu/combine.h"
#include "megaflux/layer/cpu/dispatch.h"
#include "megaflux/layer/cpu/vector_loops.h"

namespace megaflux {
namespace {

// First row of the tile in the Z store, or -1 if its Z was not saved.
int64_t saved_z_row(const RoleView& view, const BackwardLaunch& task, const Tile& tile,
                    const Part& part) {
  if (task.z.data == nullptr || task.forward_work == nullptr) return -1;
  const int32_t first_tile = view.ws.forward_first_tile[part.expert];
  const int64_t row = int64_t{first_tile + tile.index - part.first_tile} * kTileRows;
  return row + kTileRows <= task.z.rows ? row : -1;
}

// Z of the tile as fp32 values of the layer's dtype, in ws.tiles.z: read back, or computed again.
void load_z(const RoleView& view, const BackwardLaunch& task, const Tile& tile, const void* x) {
  RankWorkspace& ws = view.ws;
  const LayerShape& shape = view.shape();
  const Part& part = view.launch.work->parts()[tile.part_idx];
  const int64_t width = int64_t{2} * shape.inter;
  float* z = ws.tiles.z.as<float>();
  const int64_t saved_row = saved_z_row(view, task, tile, part);
  if (saved_row < 0) {
    compute_z(view, part, x);
    if (shape.dtype == DType::kBf16) round_in_place(z, kTileRows * width);
    ws.report.recomputed_z_rows += kTileRows;
    return;
  }
  const std::byte* saved = task.z.data + saved_row * width * dtype_bytes(shape.dtype);
  if (shape.dtype == DType::kBf16) {
    widen(reinterpret_cast<const Bf16*>(saved), z, kTileRows * width);
  } else {
    std::memcpy(z, saved, static_cast<size_t>(kTileRows * width) * sizeof(float));
  }
}

// Row r of the tile's dY in fp32; `scratch` [H] may hold it.
const float* dy_row(const RoleView& view, const Tile& tile, int32_t r, float* scratch) {
  const int64_t hidden = view.shape().hidden;
  const std::byte* pool = view.ws.pool.dy(tile.index);
  if (view.shape().dtype == DType::kFp32) return reinterpret_cast<const float*>(pool) + r * hidden;
  widen(reinterpret_cast<const Bf16*>(pool) + r * hidden, scratch, hidden);
  return scratch;
}

// dZ, p A and dp of the tile from Z and dA; dp goes to the token's source.
void run_activation(const RoleView& view, const Tile& tile, const ExpertWeights& expert) {
  RankWorkspace& ws = view.ws;
  const LayerShape& shape = view.shape();
  const int64_t inter = shape.inter;
  const int64_t gate_offset = shape.gate_order == GateOrder::kGateUp ? 0 : inter;
  const int64_t up_offset = inter - gate_offset;
  const RowOrigin* origins = ws.pool.origins(tile.index);
  float* a = ws.tiles.a_row.as<float>();
  for (int32_t r = 0; r < tile.num_rows; ++r) {
    const float* z = ws.tiles.z.as<float>() + r * 2 * inter;
    const float* da = ws.tiles.da.as<float>() + r * inter;
    float* dz = ws.tiles.dz.row(r);
    activate_backward(shape.activation,
                      {.gate = z + gate_offset,
                       .up = z + up_offset,
                       .da = da,
                       .p = ws.pool.p(tile.index)[r],
                       .d_gate = dz + gate_offset,
                       .d_up = dz + up_offset,
                       .pa = ws.tiles.pa.row(r),
                       .a = a},
                      inter);
    float dp = dot(da, a, inter);
    if (shape.has_bias) {
      const float* dy = dy_row(view, tile, r, ws.tiles.o.as<float>());
      dp += dot(dy, expert.b2, shape.hidden);
    }
    const RowOrigin& origin = origins[r];
    view.ctx.heap.at(origin.source, ws.fields.dp)[int64_t{origin.token} * shape.topk + origin.k] =
        dp;
    if (origin.source != view.ctx.rank) {
      ws.report.add(Traffic::kCombine, origin.source, int64_t{sizeof(float)});
    }
  }
  ws.tiles.dz.finish(tile.num_rows);
  ws.tiles.pa.finish(tile.num_rows);
}

// Adds the tile to the part's bias gradients: db1 += dZ, db2 = fma(p, dY, db2), rows ascending.
void add_bias_gradients(const RoleView& view, const Tile& tile, bool is_first,
                        const GradientView& sum) {
  RankWorkspace& ws = view.ws;
  const LayerShape& shape = view.shape();
  if (is_first) {
    std::fill_n(sum.b1, 2 * shape.inter, 0.0f);
    std::fill_n(sum.b2, shape.hidden, 0.0f);
  }
  for (int32_t r = 0; r < tile.num_rows; ++r) {
    add(ws.tiles.dz.row(r), sum.b1, 2 * shape.inter);
    add_scaled(ws.pool.p(tile.index)[r], dy_row(view, tile, r, ws.tiles.o.as<float>()), sum.b2,
               shape.hidden);
  }
}

void run_tile(const RoleView& view, const BackwardLaunch& task, const Tile& tile,
              const GradientView& sum) {
  RankWorkspace& ws = view.ws;
  const Part& part = view.launch.work->parts()[tile.part_idx];
  await_rows(view, tile);
  const void* x = row_operand(view, ws.pool.x(tile.index), ws.tiles.x_staged);
  const void* dy = row_operand(view, ws.pool.dy(tile.index), ws.tiles.dy_staged);
  load_z(view, task, tile, x);
  const ExpertWeights from_w2 = await_part_w2(view, part);
  ws.gemms.dgrad2.run(dy, weight_operand(view, part, WeightUse::kDgrad2, from_w2.w2),
                      ws.tiles.da.as<float>());
  run_activation(view, tile, from_w2);

  const bool is_first = tile.index == part.first_tile;
  Gemm& wgrad2 = is_first ? ws.gemms.wgrad2 : ws.gemms.wgrad2_added;
  Gemm& wgrad1 = is_first ? ws.gemms.wgrad1 : ws.gemms.wgrad1_added;
  wgrad2.run(dy, ws.tiles.pa.operand(), sum.w2);
  wgrad1.run(ws.tiles.dz.operand(), x, sum.w1);
  if (view.shape().has_bias) add_bias_gradients(view, tile, is_first, sum);

  const ExpertWeights from_w1 = await_part_w1(view, part);
  float* dx = ws.tiles.o.as<float>();
  ws.gemms.dgrad1.run(ws.tiles.dz.operand(),
                      weight_operand(view, part, WeightUse::kDgrad1, from_w1.w1), dx);
  const RowOrigin* origins = ws.pool.origins(tile.index);
  for (int32_t r = 0; r < tile.num_rows; ++r) {
    push_result(view, origins[r], dx + int64_t{r} * view.shape().hidden);
  }
  finish_tile(view, tile);
}

void compute_role(const RoleView& view, const BackwardLaunch& task) {
  const auto parts = view.launch.work->parts();
  clear_untouched(view, task.gradients);
  for (const Tile tile : *view.launch.work) {
    const Part& part = parts[tile.part_idx];
    run_tile(view, task, tile, accumulator_of(view, task.gradients, part));
    if (tile.index + 1 == part.first_tile + part.num_tiles) {
      finish_part(view, task.gradients, part);
    }
  }
}

// Where the forward put each expert's first tile.
void find_saved_tiles(RankWorkspace& ws, const BackwardLaunch& task) {
  if (task.forward_work == nullptr) return;
  for (const Part& part : task.forward_work->parts()) {
    ws.forward_first_tile[part.expert] = part.first_tile;
  }
}

MatrixOrder matrix_order(const BackwardLaunch& task) {
  const bool is_all_saved = task.z.data != nullptr && task.forward_work != nullptr &&
                            int64_t{task.forward_work->num_tiles()} * kTileRows <= task.z.rows;
  return is_all_saved ? MatrixOrder::kW2First : MatrixOrder::kW1First;
}

}  // namespace

void run_backward(RankContext& ctx, RankWorkspace& ws, const BackwardLaunch& task) {
  const RoleView view{ctx, ws, task.launch};
  const int64_t cpu_begin = thread_cpu_ns();
  if (ctx.role == Role::kComm) {
    join_entry(ctx);
    pull_all(view, matrix_order(task));
    reduce_gradients(view, task.gradients);
    combine_gradients(view, task.dx, task.dp);
    ws.report.comm_cpu_ns = thread_cpu_ns() - cpu_begin;
    finish_comm(ctx);
    return;
  }
  const int64_t wall_begin = wall_ns();
  reserve_accumulators(ws, task.gradients);
  find_saved_tiles(ws, task);
  begin_launch(view);
  compute_role(view, task);
  ws.report.compute_cpu_ns = thread_cpu_ns() - cpu_begin;
  leave(ctx);
  ws.report.wall_ns = wall_ns() - wall_begin;
}

}  // namespace megaflux
