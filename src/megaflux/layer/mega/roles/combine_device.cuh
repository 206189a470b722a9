// Role comm, second half: y of the rank's own tokens, a warp at a time a token or 512 columns of a
// token, in the order of their tickets. Math warps help once the list is done. Waits for y_count;
// writes y.
//
// y_t = bf16(fma over k ascending of p_tk O, from 0), over the k whose id is an expert. Under
// Fault::kSwapKOrder k descends.
#pragma once

#include "megaflux/layer/mega/arch/sm90/warp_device.cuh"
#include "megaflux/layer/mega/readiness_device.cuh"

namespace megaflux::mega {

// The results of a token in the order in which they are added: the n-th has k = first + n step.
struct SumOrder {
  int32_t first = 0;
  int32_t step = 1;
};
__device__ __forceinline__ SumOrder sum_order(const CtaView& cta) {
  if (cta.params.fault == Fault::kSwapKOrder) return {cta.rank.routing.topk - 1, -1};
  return {};
}

// One token's routing, spread over a warp: lane l has the l-th and the l + 32nd of the order.
class TokenRoutes {
 public:
  // What is loaded is looked at in settle(), so that other loads may be on their way with it.
  __device__ __forceinline__ TokenRoutes(const CtaView& cta, int32_t token, bool is_valid) {
    const RoutingView& routing = cta.rank.routing;
    const SumOrder order = sum_order(cta);
#pragma unroll
    for (int32_t half = 0; half < 2; ++half) {
      const int32_t n = half * kWarp + lane_idx();
      if (!is_valid || n >= routing.topk) continue;
      const int32_t k = order.first + n * order.step;
      experts_[half] = routing.expert_at(token, k);
      weights_[half] = routing.topk_weights[int64_t{token} * routing.topk + k];
    }
  }
  // All lanes.
  __device__ __forceinline__ void settle(int32_t num_experts) {
#pragma unroll
    for (int32_t half = 0; half < 2; ++half) {
      const bool routed = experts_[half] >= 0 && experts_[half] < num_experts;
      is_routed_[half] = __ballot_sync(~0u, routed);
    }
  }
  __device__ __forceinline__ bool has(int32_t n) const {
    return ((n < kWarp ? is_routed_[0] : is_routed_[1]) >> n % kWarp & 1) != 0;
  }
  // All lanes.
  __device__ __forceinline__ float weight(int32_t n) const {
    return __shfl_sync(~0u, n < kWarp ? weights_[0] : weights_[1], n % kWarp);
  }

 private:
  int64_t experts_[2] = {-1, -1};
  float weights_[2] = {0, 0};
  uint32_t is_routed_[2] = {0, 0};  // bit l: the l-th (+ 32) goes to an expert
};

// This lane's share of the rows that the tokens counted with `token` are routed to.
__device__ __forceinline__ int32_t count_routed(const CtaView& cta, int32_t token,
                                                int32_t num_valid) {
  const RoutingView& routing = cta.rank.routing;
  const int32_t first = token / kCountedTokens * kCountedTokens;
  const int32_t num_pairs = min(kCountedTokens, num_valid - first) * routing.topk;
  int32_t count = 0;
#pragma unroll 2
  for (int32_t i = lane_idx(); i < num_pairs; i += kWarp) {
    const int64_t expert = routing.expert_at(first, i);
    count += expert >= 0 && expert < cta.params.num_experts;
  }
  return count;
}

// One warp: a token's routes, once all results of the tokens that are counted with it are in place.
// Ids, weights and count are one trip to memory. False: the group has aborted.
__device__ inline bool await_results(const CtaView& cta, int32_t token, int32_t num_valid,
                                     TokenRoutes& routes) {
  const int32_t group = token / kCountedTokens;
  uint32_t* const word = cta.counter(cta.params.fields.y_count) + group;
  const int32_t count = count_routed(cta, token, num_valid);
  uint32_t seen = 0;
  if (lane_idx() == 0) seen = load_signal<kPeerScope>(word);
  routes.settle(cta.params.num_experts);
  const auto num_rows = static_cast<uint32_t>(__reduce_add_sync(~0u, count));
  bool is_sound = true;
  if (lane_idx() == 0 && seen < num_rows) {
    is_sound = wait_for<kPeerScope>(
        cta.self, {.tag = WaitTag::kYCount, .word = word, .expected = num_rows, .index = group});
  }
  is_sound = __shfl_sync(~0u, is_sound, 0);
  __syncwarp();  // what lane 0 has acquired, the others may read
  return is_sound;
}

// sum[i] = fma(weight, values[i], sum[i]) for 8 bf16 values.
__device__ __forceinline__ void add_weighted(float weight, const uint4& values, float (&sum)[8]) {
  const uint32_t words[4] = {values.x, values.y, values.z, values.w};
#pragma unroll
  for (int32_t i = 0; i < 4; ++i) {
    sum[2 * i] = __fmaf_rn(weight, __uint_as_float(words[i] << 16), sum[2 * i]);
    sum[2 * i + 1] = __fmaf_rn(weight, __uint_as_float(words[i] & 0xffff0000u), sum[2 * i + 1]);
  }
}

// 256 kRuns columns of a token by one warp, 8 of each run a lane.
template <int32_t kRuns>
struct ColumnSums {
  static constexpr int32_t kColumns = kRuns * 8 * kWarp;
  int32_t columns[kRuns];
  int32_t hidden;
  float sums[kRuns][8] = {};

  __device__ __forceinline__ ColumnSums(int32_t first, int32_t num_columns) : hidden(num_columns) {
#pragma unroll
    for (int32_t r = 0; r < kRuns; ++r) columns[r] = first + 8 * (r * kWarp + lane_idx());
  }
  __device__ __forceinline__ void load(const Bf16* row, uint4 (&values)[kRuns]) const {
#pragma unroll
    for (int32_t r = 0; r < kRuns; ++r) {
      if (columns[r] < hidden) values[r] = *reinterpret_cast<const uint4*>(row + columns[r]);
    }
  }
  __device__ __forceinline__ void add(float weight, const uint4 (&values)[kRuns]) {
#pragma unroll
    for (int32_t r = 0; r < kRuns; ++r) {
      if (columns[r] < hidden) add_weighted(weight, values[r], sums[r]);
    }
  }
  __device__ __forceinline__ void store(Bf16* y) const {
#pragma unroll
    for (int32_t r = 0; r < kRuns; ++r) {
      const float(&sum)[8] = sums[r];
      if (columns[r] >= hidden) continue;
      *reinterpret_cast<uint4*>(y + columns[r]) = {
          sm90::pack_bf16(sum[0], sum[1]), sm90::pack_bf16(sum[2], sum[3]),
          sm90::pack_bf16(sum[4], sum[5]), sm90::pack_bf16(sum[6], sum[7])};
    }
  }
};

// How much a warp has on its way: kAtOnce results of kRuns x 256 columns each.
struct MathSums {
  static constexpr int32_t kAtOnce = 8, kRuns = 2;
};
struct CommSums {
  static constexpr int32_t kAtOnce = 4, kRuns = 2;
};

// One warp: the columns from `first` on that fit, of a token whose results stand `stride` elements
// apart in their order.
template <class Shape>
__device__ __forceinline__ void sum_columns(const CtaView& cta, const TokenRoutes& routes,
                                            const Bf16* results, int32_t stride, Bf16* y,
                                            int32_t first) {
  constexpr int32_t kAtOnce = Shape::kAtOnce, kRuns = Shape::kRuns;
  const int32_t hidden = cta.params.hidden, topk = cta.rank.routing.topk;
  ColumnSums<kRuns> sums(first, hidden);
#pragma unroll 1
  for (int32_t begin = 0; begin < topk; begin += kAtOnce) {
    uint4 values[kAtOnce][kRuns];
#pragma unroll
    for (int32_t u = 0; u < kAtOnce; ++u) {
      const int32_t n = begin + u;
      if (n < topk && routes.has(n)) sums.load(results + int64_t{n} * stride, values[u]);
    }
#pragma unroll
    for (int32_t u = 0; u < kAtOnce; ++u) {
      const int32_t n = begin + u;
      if (n < topk && routes.has(n)) sums.add(routes.weight(n), values[u]);
    }
  }
  sums.store(y);
}

// Tickets of slices of tokens. The next one is on its way while a slice is summed.
class SliceTickets {
 public:
  __device__ __forceinline__ explicit SliceTickets(const CtaView& cta) : cta_(cta) { order(); }
  // One warp.
  __device__ __forceinline__ int32_t take() {
    const uint32_t ticket = __shfl_sync(~0u, ordered_, 0);
    order();
    return static_cast<int32_t>(ticket);
  }

 private:
  __device__ __forceinline__ void order() {
    if (lane_idx() != 0) return;
    ordered_ = take_ticket(cta_.counter(cta_.params.fields.next_slice));
  }

  const CtaView& cta_;
  uint32_t ordered_ = 0;
};

// One warp of many. Tokens are cut into slices where there are fewer than warps.
template <class Shape>
__device__ __forceinline__ void sum_tokens(const CtaView& cta, Tracer& tracer) {
  constexpr int32_t kWarpsThatSum = 1 + kMathGroups * kWarpgroupWarps;
  const RoutingView& routing = cta.rank.routing;
  const int32_t num_tokens = routing.num_tokens, hidden = cta.params.hidden;
  const int32_t num_valid = routing.valid_tokens();
  const bool is_cut = num_tokens < cta.self.num_ctas * kWarpsThatSum;
  const int32_t columns = is_cut ? kSliceColumns : hidden;
  const int32_t num_slices = ceil_div(hidden, columns);
  const SumOrder order = sum_order(cta);
  SliceTickets tickets(cta);
  for (int32_t ticket = tickets.take(); ticket < num_tokens * num_slices; ticket = tickets.take()) {
    tracer.begin();
    const int32_t token = ticket / num_slices;
    TokenRoutes routes(cta, token, token < num_valid);
    if (!await_results(cta, token, num_valid, routes)) return;
    const int64_t row = int64_t{token} * hidden;
    const Bf16* const results =
        cta.self.own(cta.params.fields.results) + row * routing.topk + order.first * hidden;
    const int32_t first = ticket % num_slices * columns, end = min(first + columns, hidden);
#pragma unroll 1  // one run's loads on their way are what the registers hold
    for (int32_t column = first; column < end; column += ColumnSums<Shape::kRuns>::kColumns) {
      sum_columns<Shape>(cta, routes, results, order.step * hidden, cta.rank.y + row, column);
    }
    tracer.end(TraceKind::kSum, token);
  }
}

}  // namespace megaflux::mega
