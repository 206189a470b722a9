#include "megaflux/layer/cpu/combine.h"

#include <algorithm>
#include <cstring>

#include "megaflux/base/math.h"
#include "megaflux/comm/wait.h"
#include "megaflux/layer/cpu/vector_loops.h"

namespace megaflux {
namespace {

// Waits until all results of tokens [first, last), one group, are in place.
void await_group(const RoleView& view, int32_t first, int32_t last) {
  const RoutingView& routing = view.launch.routing;
  uint32_t expected = 0;
  for (int32_t token = first; token < std::min(last, routing.valid_tokens()); ++token) {
    for (int32_t k = 0; k < routing.topk; ++k) expected += routing.expert_at(token, k) >= 0;
  }
  if (expected == 0) return;
  const int32_t group = first / kTokenGroup;
  wait_for(view.ctx, {.tag = WaitTag::kYCount,
                      .word = view.counter(view.ws.fields.y_count) + group,
                      .expected = expected,
                      .index = group});
}

void add_result(const RoleView& view, int64_t pair, float scale, float* sum) {
  const LayerShape& shape = view.shape();
  const int64_t row_bytes = shape.hidden * dtype_bytes(shape.dtype);
  const std::byte* row = view.ctx.heap.at(view.ctx.rank, view.ws.fields.results) + pair * row_bytes;
  if (shape.dtype == DType::kBf16) {
    add_scaled(scale, reinterpret_cast<const Bf16*>(row), sum, shape.hidden);
  } else {
    add_scaled(scale, reinterpret_cast<const float*>(row), sum, shape.hidden);
  }
}

void sum_token(const RoleView& view, int32_t token, bool is_weighted, void* out) {
  const LayerShape& shape = view.shape();
  const RoutingView& routing = view.launch.routing;
  float* sum = view.ws.token_sum.data();
  std::fill(sum, sum + shape.hidden, 0.0f);
  if (token < routing.valid_tokens()) {
    for (int32_t step = 0; step < shape.topk; ++step) {
      const int32_t k = view.launch.fault == Fault::kSwapKOrder ? shape.topk - 1 - step : step;
      if (routing.expert_at(token, k) < 0) continue;
      const int64_t pair = int64_t{token} * shape.topk + k;
      add_result(view, pair, is_weighted ? routing.topk_weights[pair] : 1.0f, sum);
    }
  }
  const int64_t first = int64_t{token} * shape.hidden;
  if (shape.dtype == DType::kBf16) {
    narrow(sum, static_cast<Bf16*>(out) + first, shape.hidden);
  } else {
    std::copy(sum, sum + shape.hidden, static_cast<float*>(out) + first);
  }
}

void copy_dp(const RoleView& view, int32_t token, float* dp) {
  const RoutingView& routing = view.launch.routing;
  const float* arrived = view.ctx.heap.at(view.ctx.rank, view.ws.fields.dp);
  const bool is_valid = token < routing.valid_tokens();
  for (int32_t k = 0; k < routing.topk; ++k) {
    const int64_t pair = int64_t{token} * routing.topk + k;
    dp[pair] = is_valid && routing.expert_at(token, k) >= 0 ? arrived[pair] : 0.0f;
  }
}

}  // namespace

void combine_outputs(const RoleView& view, void* y) {
  const int32_t num_tokens = view.launch.routing.num_tokens;
  for (int32_t first = 0; first < num_tokens; first += kTokenGroup) {
    const int32_t last = std::min(first + kTokenGroup, num_tokens);
    await_group(view, first, last);
    for (int32_t token = first; token < last; ++token) sum_token(view, token, true, y);
  }
}

void combine_gradients(const RoleView& view, void* dx, float* dp) {
  const int32_t num_tokens = view.launch.routing.num_tokens;
  for (int32_t first = 0; first < num_tokens; first += kTokenGroup) {
    const int32_t last = std::min(first + kTokenGroup, num_tokens);
    await_group(view, first, last);
    for (int32_t token = first; token < last; ++token) {
      sum_token(view, token, false, dx);
      copy_dp(view, token, dp);
    }
  }
}

}  // namespace megaflux
