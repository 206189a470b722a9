// What one rank is told for one launch, and what both passes do at its beginning and end.
//
// Both roles of a rank call the same function with the same launch: run_forward or run_backward.
// All pointers must stay valid until both calls have returned on every rank.
#pragma once

#include <cstdint>
#include <span>

#include "megaflux/comm/entry_exit.h"
#include "megaflux/comm/rank_context.h"
#include "megaflux/layer/cpu/workspace.h"
#include "megaflux/layer/fault.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"
#include "megaflux/moe/routing.h"
#include "megaflux/moe/work_list.h"

namespace megaflux {

struct Launch {
  EntryWords words;  // op, layer, plan hash, config hash
  const Plan* plan = nullptr;
  const LoadTable* loads = nullptr;
  const WorkList* work = nullptr;  // of this rank
  RoutingView routing;             // of this rank, checked
  const void* x = nullptr;         // [T, H]
  const void* dy = nullptr;        // [T, H], backward only
  OwnedWeights weights;            // of this rank
  uint64_t weight_version = 0;
  // [s] 1 = this rank's slot holds the plan's expert already, nothing moves; empty = no slot does.
  std::span<const uint8_t> is_slot_filled = {};
  bool has_route_list = false;  // the head of this step left this rank's list in its place
  Fault fault = Fault::kNone;
};

// One rank's view of a launch in progress; made by each role for itself.
struct RoleView {
  RankContext& ctx;
  RankWorkspace& ws;
  const Launch& launch;

  const LayerShape& shape() const { return ws.config.shape; }
  bool is_backward() const { return launch.words.op == LaunchOp::kBackward; }
  const PublishedInputs& inputs_of(int32_t rank) const {
    return *ctx.heap.at(rank, ws.fields.inputs);
  }
  // This rank's counter of the current launch.
  uint32_t* counter(CounterField field) const { return ctx.heap.at(ctx.rank, field, ctx.epoch); }
};

// Compute role: publishes the inputs, builds the route list unless there is one, enters. Throws
// what enter() throws.
void begin_launch(const RoleView& view);
// Raw weights of a part; waits for the matrix if it travels to a slot.
ExpertWeights await_part_w1(const RoleView& view, const Part& part);
ExpertWeights await_part_w2(const RoleView& view, const Part& part);
// What the GEMM of `use` reads for this part; `raw` is the matrix of that use.
const void* weight_operand(const RoleView& view, const Part& part, WeightUse use, const void* raw);
// The pool's tile as a GEMM reads it: itself, or a copy in `staged` with the type and padding it
// needs.
const void* row_operand(const RoleView& view, const std::byte* pool_rows, const HostBuffer& staged);
// Waits until the rows of the tile are in the pool.
void await_rows(const RoleView& view, const Tile& tile);
// Compute role: the tile's results are pushed; counts its rows and frees its place in the pool.
void finish_tile(const RoleView& view, const Tile& tile);
// Rounds `row` [H] to the layer's dtype once and pushes it to where `origin` came from, then counts
// it.
void push_result(const RoleView& view, const RowOrigin& origin, const float* row);

}  // namespace megaflux
