// Role comm, second half: y of the rank's own tokens, one warp a token, in the order of their
// tickets. Math warps help once the list is done. Waits for y_count; writes y.
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
        if (routed) weights[half] = routing.topk_weights[int64_t{token} * routing.topk + k];
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
  __device__ __forceinline__ int32_t count() const {
    return __popc(is_routed[0]) + __popc(is_routed[1]);
  }
};

// One warp: all results of the tokens that are counted with `token` are in place.
__device__ inline bool await_results(const CtaView& cta, int32_t token) {
  const int32_t group = token / kCountedTokens;
  const int32_t end = min((group + 1) * kCountedTokens, cta.rank.routing.num_tokens);
  int32_t num_rows = 0;
  for (int32_t t = group * kCountedTokens; t < end; ++t) num_rows += TokenRoutes(cta, t).count();
  bool is_sound = true;
  if (lane_idx() == 0 && num_rows > 0) {
    is_sound = wait_for<kPeerScope>(
        cta.self, {.tag = WaitTag::kYCount,
                   .word = cta.counter(cta.params.fields.y_count) + group,
                   .expected = static_cast<uint32_t>(num_rows * cta.params.fc2_columns),
                   .index = group});
  }
  __syncwarp();  // a shuffle orders no memory, and all lanes read the results
  return __shfl_sync(~0u, is_sound, 0);
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

// One warp: 256 columns of a token, 8 a lane.
__device__ __forceinline__ void sum_columns(const CtaView& cta, const TokenRoutes& routes,
                                            const Bf16* results, Bf16* y, int32_t column) {
  constexpr int32_t kAtOnce = 4;  // loads on their way
  const int32_t hidden = cta.params.hidden, topk = cta.rank.routing.topk;
  const bool is_column = column < hidden;
  float sum[8] = {};
  for (int32_t first = 0; first < topk; first += kAtOnce) {
    uint4 values[kAtOnce];
#pragma unroll
    for (int32_t u = 0; u < kAtOnce; ++u) {
      const int32_t k = first + u;
      if (k < topk && is_column && routes.has(k)) {
        values[u] = *reinterpret_cast<const uint4*>(results + int64_t{k} * hidden + column);
      }
    }
#pragma unroll
    for (int32_t u = 0; u < kAtOnce; ++u) {
      const int32_t k = first + u;
      if (k >= topk || !routes.has(k)) continue;
      const float weight = routes.weight(k);
      if (is_column) add_weighted(weight, values[u], sum);
    }
  }
  if (!is_column) return;
  *reinterpret_cast<uint4*>(y + column) = {
      sm90::pack_bf16(sum[0], sum[1]), sm90::pack_bf16(sum[2], sum[3]),
      sm90::pack_bf16(sum[4], sum[5]), sm90::pack_bf16(sum[6], sum[7])};
}

__device__ inline void sum_token(const CtaView& cta, int32_t token) {
  const int32_t hidden = cta.params.hidden;
  const TokenRoutes routes(cta, token);
  const Bf16* const results =
      cta.self.own(cta.params.fields.results) + int64_t{token} * cta.rank.routing.topk * hidden;
  Bf16* const y = cta.rank.y + int64_t{token} * hidden;
  for (int32_t first = 0; first < hidden; first += 8 * kWarp) {
    sum_columns(cta, routes, results, y, first + 8 * lane_idx());
  }
}

// One warp of many.
__device__ inline void sum_tokens(const CtaView& cta, Tracer& tracer) {
  for (;;) {
    int32_t token = 0;
    tracer.begin();
    if (lane_idx() == 0) {
      uint32_t* const next = cta.counter(cta.params.fields.next_token);
      token = static_cast<int32_t>(add_signal<kRankScope>(cta.self, next, 1));
    }
    token = __shfl_sync(~0u, token, 0);
    if (token >= cta.rank.routing.num_tokens || !await_results(cta, token)) return;
    sum_token(cta, token);
    tracer.end(TraceKind::kSum, token);
  }
}

}  // namespace megaflux::mega
