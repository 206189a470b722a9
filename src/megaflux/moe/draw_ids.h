// Token-level routing from counts: experts and weights of tokens that nobody recorded.
//
// Example: counts {3, 2, 1, 2} for T = 4 tokens of K = 2: one possible result is {0,1, 3,0, 2,3,
// 1,0}; every seed gives two distinct experts a token, expert 0 three times, and so on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace megaflux {

// topk_ids [num_tokens, topk]: distinct experts in every token's row, expert e in counts[e] of
// them, the same for equal arguments on every machine. Always succeeds for counts in [0,
// num_tokens] that add up to num_tokens * topk < 2^31; anything else throws kBadInput.
//
// How: the experts, in random order, write their rows into consecutive cells of a [topk,
// num_tokens] grid over randomly ordered tokens. A run of at most num_tokens cells meets no token
// twice, so this cannot fail. Then num_tokens * topk random swaps between two tokens that keep both
// rows distinct remove the order of the grid.
std::vector<int32_t> draw_ids(std::span<const int32_t> counts, int32_t num_tokens, int32_t topk,
                              uint64_t seed);

// topk_weights for `topk_ids` [T, topk]: positive, adding up to 1 over the routed slots of a token;
// 0 where the id is -1.
std::vector<float> draw_weights(std::span<const int32_t> topk_ids, int32_t topk, uint64_t seed);

// Random permutation of `values` (Fisher-Yates from the back).
void shuffle(std::span<int32_t> values, uint64_t seed);

}  // namespace megaflux
