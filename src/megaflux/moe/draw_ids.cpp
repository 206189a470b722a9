#include "megaflux/moe/draw_ids.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "megaflux/base/check.h"
#include "megaflux/base/rng.h"

namespace megaflux {
namespace {

void check_counts(std::span<const int32_t> counts, int32_t num_tokens, int32_t topk) {
  MF_CHECK(topk >= 1 && topk <= 64, "topk: ", topk, " is outside [1, 64]");
  MF_CHECK(num_tokens >= 0, "num_tokens: ", num_tokens, " is negative");
  const int64_t expected = int64_t{num_tokens} * topk;
  MF_CHECK(expected < (int64_t{1} << 31), "num_tokens x topk: ", expected,
           " rows, below 2^31 expected");
  int64_t sum = 0;
  for (size_t e = 0; e < counts.size(); ++e) {
    MF_CHECK(counts[e] >= 0 && counts[e] <= num_tokens, "counts: expert ", e, ": ", counts[e],
             " is outside [0, ", num_tokens, " tokens]");
    sum += counts[e];
  }
  MF_CHECK(sum == expected, "counts: ", sum, " rows, ", num_tokens, " tokens x topk ", topk, " = ",
           expected, " expected");
}

bool contains(std::span<const int32_t> row, int32_t expert) {
  return std::find(row.begin(), row.end(), expert) != row.end();
}

// Swaps cells of two random tokens wherever both rows stay distinct.
void mix(std::span<int32_t> ids, int32_t num_tokens, int32_t topk, Rng& rng) {
  const auto row = [&](uint32_t token) { return ids.subspan(size_t{token} * topk, topk); };
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto a = row(rng.below(static_cast<uint32_t>(num_tokens)));
    const auto b = row(rng.below(static_cast<uint32_t>(num_tokens)));
    int32_t& from_a = a[rng.below(static_cast<uint32_t>(topk))];
    int32_t& from_b = b[rng.below(static_cast<uint32_t>(topk))];
    if (!contains(a, from_b) && !contains(b, from_a)) std::swap(from_a, from_b);
  }
}

}  // namespace

void shuffle(std::span<int32_t> values, uint64_t seed) {
  Rng rng(seed);
  for (size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[rng.below(static_cast<uint32_t>(i))]);
  }
}

std::vector<int32_t> draw_ids(std::span<const int32_t> counts, int32_t num_tokens, int32_t topk,
                              uint64_t seed) {
  check_counts(counts, num_tokens, topk);
  Rng rng(seed);
  std::vector<int32_t> experts(counts.size());
  std::iota(experts.begin(), experts.end(), 0);
  shuffle(experts, rng.next());
  std::vector<int32_t> tokens(num_tokens);
  std::iota(tokens.begin(), tokens.end(), 0);
  shuffle(tokens, rng.next());

  std::vector<int32_t> ids(static_cast<size_t>(num_tokens) * topk);
  size_t cell = 0;
  for (const int32_t expert : experts) {
    for (int32_t n = 0; n < counts[expert]; ++n, ++cell) {
      ids[size_t(tokens[cell % num_tokens]) * topk + cell / num_tokens] = expert;
    }
  }
  mix(ids, num_tokens, topk, rng);
  // The slot of an expert must not tell where it stood in the grid.
  for (int32_t t = 0; t < num_tokens; ++t) {
    shuffle(std::span(ids).subspan(static_cast<size_t>(t) * topk, topk), rng.next());
  }
  return ids;
}

std::vector<float> draw_weights(std::span<const int32_t> topk_ids, int32_t topk, uint64_t seed) {
  MF_CHECK(topk >= 1 && topk_ids.size() % topk == 0, "topk: ", topk, " does not divide ",
           topk_ids.size(), " ids");
  // Not the stream that draw_ids takes from the same seed.
  Rng rng(mix64(~seed));
  std::vector<float> weights(topk_ids.size());
  std::vector<double> raw(topk);
  for (size_t begin = 0; begin < topk_ids.size(); begin += topk) {
    double sum = 0;
    for (int32_t k = 0; k < topk; ++k) {
      raw[k] = topk_ids[begin + k] < 0 ? 0.0 : 0.125 + rng.uniform();
      sum += raw[k];
    }
    for (int32_t k = 0; k < topk; ++k) {
      weights[begin + k] = raw[k] > 0 ? static_cast<float>(raw[k] / sum) : 0.0f;
    }
  }
  return weights;
}

}  // namespace megaflux
