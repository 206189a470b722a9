#include "megaflux/layer/cpu/gradients.h"

#include <algorithm>

#include "megaflux/comm/signal.h"
#include "megaflux/comm/wait.h"
#include "megaflux/layer/cpu/vector_loops.h"

namespace megaflux {
namespace {

GradientView view_of(const LayerShape& shape, float* memory) {
  GradientView view{.w1 = memory, .w2 = memory + shape.w1_elements()};
  if (!shape.has_bias) return view;
  view.b1 = view.w2 + shape.w2_elements();
  view.b2 = view.b1 + 2 * shape.inter;
  return view;
}

// The output's own memory as an accumulator; kNewFp32 and kAddToMain.
GradientView output_view(const LayerShape& shape, const GradientOutput& out, int64_t local_index) {
  GradientView view{.w1 = static_cast<float*>(out.w1) + local_index * shape.w1_elements(),
                    .w2 = static_cast<float*>(out.w2) + local_index * shape.w2_elements()};
  if (!shape.has_bias) return view;
  view.b1 = out.b1 + local_index * 2 * shape.inter;
  view.b2 = out.b2 + local_index * shape.hidden;
  return view;
}

void fill_zero(const LayerShape& shape, const GradientView& gradient) {
  std::fill_n(gradient.w1, shape.w1_elements(), 0.0f);
  std::fill_n(gradient.w2, shape.w2_elements(), 0.0f);
  if (!shape.has_bias) return;
  std::fill_n(gradient.b1, 2 * shape.inter, 0.0f);
  std::fill_n(gradient.b2, shape.hidden, 0.0f);
}

void add_gradient(const LayerShape& shape, const GradientView& from, const GradientView& sum) {
  add(from.w1, sum.w1, shape.w1_elements());
  add(from.w2, sum.w2, shape.w2_elements());
  if (!shape.has_bias) return;
  add(from.b1, sum.b1, 2 * shape.inter);
  add(from.b2, sum.b2, shape.hidden);
}

bool is_replicated(const RoleView& view, int32_t expert) {
  return view.launch.plan->instances_of(expert).size() > 1;
}

// Accumulator of an owned expert. In scratch memory, accumulator 0 serves all experts without
// replicas, one after the other; replicated ones keep theirs until they are reduced.
GradientView owned_accumulator(const RoleView& view, const GradientOutput& out, int32_t expert) {
  const RankWorkspace& ws = view.ws;
  const LayerShape& shape = view.shape();
  if (out.mode == GradientMode::kNewFp32) {
    return output_view(shape, out, ws.local_index[expert]);
  }
  size_t index = 0;
  if (is_replicated(view, expert)) {
    for (int32_t e = 0; e <= expert; ++e) {
      index += ws.config.owner_of[e] == view.ctx.rank && is_replicated(view, e);
    }
  }
  return view_of(shape, ws.accumulators[index].as<float>());
}

// Rounds the fp32 gradient into bf16 outputs.
void store_bf16(const LayerShape& shape, const GradientView& from, const GradientOutput& out,
                int64_t local_index) {
  narrow(from.w1, static_cast<Bf16*>(out.w1) + local_index * shape.w1_elements(),
         shape.w1_elements());
  narrow(from.w2, static_cast<Bf16*>(out.w2) + local_index * shape.w2_elements(),
         shape.w2_elements());
  if (!shape.has_bias) return;
  std::copy_n(from.b1, 2 * shape.inter, out.b1 + local_index * 2 * shape.inter);
  std::copy_n(from.b2, shape.hidden, out.b2 + local_index * shape.hidden);
}

void store(const RoleView& view, const GradientOutput& out, int32_t expert) {
  const int64_t local_index = view.ws.local_index[expert];
  const GradientView from = owned_accumulator(view, out, expert);
  if (out.mode == GradientMode::kNewBf16) store_bf16(view.shape(), from, out, local_index);
  if (out.mode == GradientMode::kAddToMain) {
    add_gradient(view.shape(), from, output_view(view.shape(), out, local_index));
  }
}

float* gradient_slot(const RoleView& view, int32_t rank, int32_t slot) {
  return view.ctx.heap.at(rank, view.ws.fields.gradient_slots) +
         slot * gradient_elements(view.shape());
}

// This rank's part of `expert`, or null.
const Part* part_of(const RoleView& view, int32_t expert) {
  for (const Part& part : view.launch.work->parts()) {
    if (part.expert == expert) return &part;
  }
  return nullptr;
}

// Waits until the compute role has finished the expert's own part, or has cleared its accumulator.
void await_own_part(const RoleView& view, int32_t expert) {
  const Part* part = part_of(view, expert);
  const auto index =
      part == nullptr ? -1 : static_cast<int32_t>(part - view.launch.work->parts().data());
  wait_for(view.ctx, {.tag = WaitTag::kGradientReady,
                      .word = view.counter(view.ws.fields.parts_done),
                      .expected = static_cast<uint32_t>(index + 2),
                      .index = index});
}

// Adds the gradient of one replica once its host has completed it.
void add_replica(const RoleView& view, const Instance& replica, const GradientView& sum) {
  wait_for(view.ctx,
           {.tag = WaitTag::kGradientReady,
            .word = view.ctx.heap.at(replica.rank, view.ws.fields.gradient_ready) + replica.slot,
            .expected = view.ctx.epoch,
            .peer = replica.rank,
            .index = replica.slot});
  const LayerShape& shape = view.shape();
  add_gradient(shape, view_of(shape, gradient_slot(view, replica.rank, replica.slot)), sum);
  view.ws.report.add(Traffic::kGradients, replica.rank, shape.expert_gradient_bytes());
}

void reduce_expert(const RoleView& view, const GradientOutput& out, int32_t expert) {
  await_own_part(view, expert);
  const GradientView sum = owned_accumulator(view, out, expert);
  const int32_t block_rows = view.launch.plan->dims().block_rows;
  bool is_skipping = view.launch.fault == Fault::kSkipReplicaGradient;
  for (const Instance& instance : view.launch.plan->instances_of(expert)) {
    if (instance.slot < 0) continue;
    if (view.launch.loads->rows_in_blocks(expert, instance.first_block, instance.num_blocks,
                                          block_rows) == 0) {
      continue;
    }
    if (!is_skipping) add_replica(view, instance, sum);
    is_skipping = false;
  }
  store(view, out, expert);
}

}  // namespace

void reserve_accumulators(RankWorkspace& ws, const GradientOutput& out) {
  if (!ws.accumulators.empty()) return;
  const int32_t count = num_accumulators(ws.config, ws.num_owned, out.mode);
  const int64_t bytes = gradient_elements(ws.config.shape) * int64_t{sizeof(float)};
  ws.accumulators.reserve(count);
  for (int32_t i = 0; i < count; ++i) {
    ws.accumulators.emplace_back(bytes, ws.config.is_memory_poisoned);
  }
}

void clear_untouched(const RoleView& view, const GradientOutput& out) {
  const LayerShape& shape = view.shape();
  for (int32_t e = 0; e < shape.num_experts; ++e) {
    if (view.ws.config.owner_of[e] != view.ctx.rank || part_of(view, e) != nullptr) continue;
    if (is_replicated(view, e)) {
      fill_zero(shape, owned_accumulator(view, out, e));
    } else if (out.mode != GradientMode::kAddToMain) {
      fill_zero(shape, owned_accumulator(view, out, e));
      store(view, out, e);
    }
  }
  add_signal(view.ctx, view.counter(view.ws.fields.parts_done), 1);
}

GradientView accumulator_of(const RoleView& view, const GradientOutput& out, const Part& part) {
  if (!part.is_replica) return owned_accumulator(view, out, part.expert);
  return view_of(view.shape(),
                 gradient_slot(view, view.ctx.rank, part.weight_slot - view.ws.num_owned));
}

void finish_part(const RoleView& view, const GradientOutput& out, const Part& part) {
  const RankContext& ctx = view.ctx;
  if (part.is_replica) {
    const int32_t slot = part.weight_slot - view.ws.num_owned;
    post_signal(ctx, ctx.heap.at(ctx.rank, view.ws.fields.gradient_ready) + slot, ctx.epoch);
  } else if (!is_replicated(view, part.expert)) {
    store(view, out, part.expert);
  }
  add_signal(ctx, view.counter(view.ws.fields.parts_done), 1);
}

void reduce_gradients(const RoleView& view, const GradientOutput& out) {
  for (int32_t e = 0; e < view.shape().num_experts; ++e) {
    if (view.ws.config.owner_of[e] == view.ctx.rank && is_replicated(view, e)) {
      reduce_expert(view, out, e);
    }
  }
}

}  // namespace megaflux
