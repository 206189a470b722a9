// Role comm, second half: y of the rank's own tokens, a warp at a time up to 1024 columns of a
// token, in the order of their tickets. Math warps help once the list is done. Waits for y_count;
// writes y.
//
// y_t = bf16(fma over k ascending of p_tk O, from 0), over the k whose id is an expert.
#pragma once

#include "megaflux/layer/mega/arch/sm90/warp_device.cuh"
#include "megaflux/layer/mega/readiness_device.cuh"

namespace megaflux::mega {

// One token's routing, spread over a warp: lane l has k = l and k = l + 32.
struct TokenRoutes {
  float weights[2] = {0, 0};
  uint32_t is_routed[2] = {0, 0};  // bit l: k = l (+ 32) goes to an expert

  __device__ __forceinline__ TokenRoutes(const CtaView& cta, int32_t token) {
    const RoutingView& routing = cta.rank.routing;
    const bool is_valid = token < routing.valid_tokens();
#pragma unroll
    for (int32_t half = 0; half < 2; ++half) {
      const int32_t k = half * kWarp + lane_idx();
      bool routed = false;
      if (is_valid && k < routing.topk) {
        const int64_t expert = routing.expert_at(token, k);
        routed = expert >= 0 && expert < cta.params.num_experts;
        weights[half] = routing.topk_weights[int64_t{token} * routing.topk + k];
      }
      is_routed[half] = __ballot_sync(~0u, routed);
    }
  }
  __device__ __forceinline__ bool has(int32_t k) const {
    return ((k < kWarp ? is_routed[0] : is_routed[1]) >> k % kWarp & 1) != 0;
  }
  // All lanes.
  __device__ __forceinline__ float weight(int32_t k) const {
    return __shfl_sync(~0u, k < kWarp ? weights[0] : weights[1], k % kWarp);
  }
};

// One warp: rows that the tokens counted with `token` are routed to.
__device__ inline int32_t count_routed(const CtaView& cta, int32_t token) {
  const RoutingView& routing = cta.rank.routing;
  const int32_t first = token / kCountedTokens * kCountedTokens;
  const int32_t num_tokens = min(kCountedTokens, routing.valid_tokens() - first);
  int32_t count = 0;
#pragma unroll 1
  for (int32_t i = lane_idx(); i < num_tokens * routing.topk; i += kWarp) {
    const int64_t expert = routing.expert_at(first, i);
    count += expert >= 0 && expert < cta.params.num_experts;
  }
  return __reduce_add_sync(~0u, count);
}

// One warp: all results of the tokens that are counted with `token` are in place.
__device__ inline bool await_results(const CtaView& cta, int32_t token) {
  const int32_t num_rows = count_routed(cta, token);
  const int32_t group = token / kCountedTokens;
  bool is_sound = true;
  if (lane_idx() == 0 && num_rows > 0) {
    is_sound =
        wait_for<kPeerScope>(cta.self, {.tag = WaitTag::kYCount,
                                        .word = cta.counter(cta.params.fields.y_count) + group,
                                        .expected = static_cast<uint32_t>(num_rows),
                                        .index = group});
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

// 512 columns of a token by one warp, 8 each of two runs of 256 a lane.
struct ColumnSums {
  static constexpr int32_t kRuns = 2, kColumns = kRuns * 8 * kWarp;
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

// One warp: columns [first, first + 512) of a token with these results [K, H]; kAtOnce are the k
// whose loads are on their way together.
template <int32_t kAtOnce>
__device__ __forceinline__ void sum_columns(const CtaView& cta, const TokenRoutes& routes,
                                            const Bf16* results, Bf16* y, int32_t first) {
  const int32_t hidden = cta.params.hidden, topk = cta.rank.routing.topk;
  ColumnSums sums(first, hidden);
#pragma unroll 1
  for (int32_t begin = 0; begin < topk; begin += kAtOnce) {
    uint4 values[kAtOnce][ColumnSums::kRuns];
#pragma unroll
    for (int32_t u = 0; u < kAtOnce; ++u) {
      const int32_t k = begin + u;
      if (k < topk && routes.has(k)) sums.load(results + int64_t{k} * hidden, values[u]);
    }
#pragma unroll
    for (int32_t u = 0; u < kAtOnce; ++u) {
      const int32_t k = begin + u;
      if (k < topk && routes.has(k)) sums.add(routes.weight(k), values[u]);
    }
  }
  sums.store(y);
}

// One warp: columns [first, end) of a token's y.
template <int32_t kAtOnce>
__device__ __forceinline__ void sum_slice(const CtaView& cta, int32_t token, int32_t first,
                                          int32_t end) {
  const int32_t hidden = cta.params.hidden;
  const TokenRoutes routes(cta, token);
  const Bf16* const results =
      cta.self.own(cta.params.fields.results) + int64_t{token} * cta.rank.routing.topk * hidden;
  Bf16* const y = cta.rank.y + int64_t{token} * hidden;
#pragma unroll 1  // one run's loads on their way are what the registers hold
  for (int32_t column = first; column < end; column += ColumnSums::kColumns) {
    sum_columns<kAtOnce>(cta, routes, results, y, column);
  }
}

// One warp: the next ticket.
__device__ __forceinline__ int32_t take_slice(const CtaView& cta) {
  uint32_t ticket = 0;
  if (lane_idx() == 0) {
    ticket = add_signal<kRankScope>(cta.self, cta.counter(cta.params.fields.next_slice), 1);
  }
  return static_cast<int32_t>(__shfl_sync(~0u, ticket, 0));
}

// One warp of many. Tokens are cut into slices where there are fewer than warps.
template <int32_t kAtOnce>
__device__ __forceinline__ void sum_tokens(const CtaView& cta, Tracer& tracer) {
  constexpr int32_t kWarpsThatSum = 1 + kMathGroups * kWarpgroupWarps;
  const int32_t num_tokens = cta.rank.routing.num_tokens, hidden = cta.params.hidden;
  const bool is_cut = num_tokens < cta.self.num_ctas * kWarpsThatSum;
  const int32_t columns = is_cut ? kSliceColumns : hidden;
  const int32_t num_slices = ceil_div(hidden, columns);
  int32_t awaited = -1;  // token group
  for (int32_t ticket = take_slice(cta); ticket < num_tokens * num_slices;
       ticket = take_slice(cta)) {
    tracer.begin();
    const int32_t token = ticket / num_slices;
    const int32_t group = token / kCountedTokens;
    if (group != awaited && !await_results(cta, token)) return;
    awaited = group;
    const int32_t first = ticket % num_slices * columns;
    sum_slice<kAtOnce>(cta, token, first, min(first + columns, hidden));
    tracer.end(TraceKind::kSum, token);
  }
}

}  // namespace megaflux::mega
