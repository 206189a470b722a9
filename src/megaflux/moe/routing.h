// Routing: what the router of one rank decided for the tokens of one step.
//
// Example, T = 3, K = 2, E = 4: topk_ids = {2,0, 3,-1, 1,1}, topk_weights = {.7,.3, 1,9, .6,.4}.
// Token 0 goes to experts 2 and 0; token 1 to expert 3 only (its weight 9 is never read); token 2
// goes to expert 1 twice and gets .6 O + .4 O. Rows per expert: 1, 2, 1, 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/base/math.h"

namespace megaflux {

enum class IdType : uint8_t { kInt16, kInt32, kInt64 };

// Non-owning view of one rank's routing; the inputs are never written.
struct RoutingView {
  int32_t num_tokens = 0;               // T, may be 0 and differs per rank
  int32_t topk = 0;                     // K
  IdType id_type = IdType::kInt32;      // element type of topk_ids
  const void* topk_ids = nullptr;       // [T, K] row-major; -1 = not routed; null if T = 0
  const float* topk_weights = nullptr;  // [T, K] fp32; null if T = 0
  // Tokens at and beyond *num_valid_tokens are ignored, whatever their ids say; null = all are
  // valid.
  const int32_t* num_valid_tokens = nullptr;

  // min(T, *num_valid_tokens), at least 0.
  MF_HOST_DEVICE int32_t valid_tokens() const {
    if (num_valid_tokens == nullptr) return num_tokens;
    const int32_t most = *num_valid_tokens < num_tokens ? *num_valid_tokens : num_tokens;
    return most > 0 ? most : 0;
  }
  // The expert of (token, k), widened; no check of range or validity.
  MF_HOST_DEVICE int64_t expert_at(int64_t token, int32_t k) const {
    const int64_t index = token * topk + k;
    switch (id_type) {
      case IdType::kInt16:
        return static_cast<const int16_t*>(topk_ids)[index];
      case IdType::kInt32:
        return static_cast<const int32_t*>(topk_ids)[index];
      case IdType::kInt64:
        break;
    }
    return static_cast<const int64_t*>(topk_ids)[index];
  }
};

// Owning routing with int32 ids.
struct Routing {
  int32_t num_tokens = 0;
  int32_t topk = 0;
  std::vector<int32_t> topk_ids;    // [T, K]
  std::vector<float> topk_weights;  // [T, K]

  RoutingView view() const;
};

// Throws kBadInput if an id of a valid token is outside [-1, num_experts), naming rank, token, k
// and id, or if a pointer is missing.
void check_routing(const RoutingView& routing, int32_t rank, int32_t num_experts);

// rows[e] = number of (token, k) pairs of valid tokens routed to e. `rows` has num_experts entries
// and is overwritten. An id twice in a token's row counts twice. The ids must have passed
// check_routing.
void count_rows(const RoutingView& routing, std::span<int32_t> rows);

}  // namespace megaflux
