// What is bad in one place stays there: a NaN in one token, in one expert's weights or in a routing
// weight that nobody may read reaches no other token and no other expert, in this step or the next.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "megaflux/moe/owner_table.h"
#include "session/step_rig.h"

namespace megaflux {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Kind {
  DType dtype;
  bool is_gpt_oss_like;  // biases and the clamped activation
  ZChoice z;
  float bad;
};

class Isolation : public testing::TestWithParam<Kind> {
 protected:
  // Parts that end in the middle of a tile, an empty rank, ids of -1 and replicas.
  LayerCase layer_case() const {
    LayerCase c;
    c.name = "isolation";
    c.shape = {.num_experts = 7, .topk = 3, .hidden = 40, .inter = 24, .dtype = GetParam().dtype};
    c.shape.has_bias = GetParam().is_gpt_oss_like;
    if (GetParam().is_gpt_oss_like) {
      c.shape.activation = {Activation::Kind::kClampedSwiGlu, 0.4f, 1.702f};
    }
    c.tokens = {70, 41, 0, 133};
    c.route = RouteKind::kHoles;
    c.block_rows = 16;
    c.z = GetParam().z;
    return c;
  }
};

bool is_chosen(const StepData& data, TokenRef token, int32_t expert) {
  for (int32_t k = 0; k < data.shape().topk; ++k) {
    if (data.routing[token.rank].expert_at(token.token, k) == expert) return true;
  }
  return false;
}

bool is_row_equal(const TypedVector& a, const TypedVector& b, int64_t row, int64_t width) {
  const auto bytes = static_cast<size_t>(width * dtype_bytes(a.dtype));
  return std::memcmp(a.bytes.data() + row * bytes, b.bytes.data() + row * bytes, bytes) == 0;
}

// "" if all tokens and experts for which `is_spoilt` is false have equal results.
template <typename SpoiltToken, typename SpoiltExpert>
std::string leak(const StepData& data, const StepOutput& clean, const StepOutput& other,
                 SpoiltToken is_spoilt_token, SpoiltExpert is_spoilt_expert) {
  const LayerShape& shape = data.shape();
  for (int32_t rank = 0; rank < data.num_ranks(); ++rank) {
    for (int32_t token = 0; token < data.layer_case.tokens[rank]; ++token) {
      if (is_spoilt_token(TokenRef{rank, token})) continue;
      const size_t pair = static_cast<size_t>(token) * shape.topk;
      if (!is_row_equal(clean.y[rank], other.y[rank], token, shape.hidden) ||
          !is_row_equal(clean.dx[rank], other.dx[rank], token, shape.hidden) ||
          std::memcmp(&clean.dp[rank][pair], &other.dp[rank][pair], shape.topk * sizeof(float)) !=
              0) {
        return "token " + std::to_string(token) + " of rank " + std::to_string(rank);
      }
    }
  }
  const auto local = local_index_of(data.owner_of, data.num_ranks());
  for (int32_t e = 0; e < shape.num_experts; ++e) {
    const int32_t owner = data.owner_of[e];
    if (is_spoilt_expert(e)) continue;
    if (!is_row_equal(clean.w1[owner], other.w1[owner], local[e], shape.w1_elements()) ||
        !is_row_equal(clean.w2[owner], other.w2[owner], local[e], shape.w2_elements())) {
      return "weight gradient of expert " + std::to_string(e);
    }
  }
  return "";
}

TEST_P(Isolation, OfOneToken) {
  const TokenRef bad{3, 77};
  const StepData clean(layer_case(), 5);
  const StepOutput expected = StepRig(clean).step();
  const int32_t hidden = clean.shape().hidden;
  for (const bool is_in_x : {true, false}) {
    StepData data(layer_case(), 5);
    TypedVector& tensor = (is_in_x ? data.x : data.dy)[bad.rank];
    for (int32_t h = 0; h < hidden; ++h) tensor.set(bad.token * hidden + h, GetParam().bad);
    StepRig rig(data);
    const auto is_token = [&](TokenRef t) { return t.rank == bad.rank && t.token == bad.token; };
    const auto is_expert = [&](int32_t e) { return is_chosen(data, bad, e); };
    EXPECT_EQ(leak(data, expected, rig.step(), is_token, is_expert), "");
    // Nothing of it is left in pools and slots.
    const TypedVector& sound = (is_in_x ? clean.x : clean.dy)[bad.rank];
    std::copy(sound.bytes.begin(), sound.bytes.end(), tensor.bytes.begin());
    const StepOutput next = rig.step();
    EXPECT_EQ(token_difference(expected, next) + gradient_difference(expected, next), "");
  }
}

TEST_P(Isolation, OfOneExpertsWeights) {
  const StepData clean(layer_case(), 6);
  const StepOutput expected = StepRig(clean).step();
  const auto local = local_index_of(clean.owner_of, clean.num_ranks());
  for (int32_t bad = 0; bad < clean.shape().num_experts; ++bad) {
    StepData data(layer_case(), 6);
    const bool is_w1 = bad % 2 == 0;
    const int32_t owner = data.owner_of[bad];
    const int64_t size = is_w1 ? data.shape().w1_elements() : data.shape().w2_elements();
    TypedVector& weights = (is_w1 ? data.w1 : data.w2)[owner];
    for (int64_t i = 0; i < size; i += 3) weights.set(local[bad] * size + i, GetParam().bad);
    const auto is_token = [&](TokenRef t) { return is_chosen(data, t, bad); };
    const auto is_expert = [&](int32_t e) { return e == bad; };
    EXPECT_EQ(leak(data, expected, StepRig(data).step(), is_token, is_expert), "")
        << "expert " << bad;
  }
}

TEST_P(Isolation, RoutingWeightsOfMinusOneAreNotRead) {
  const StepData clean(layer_case(), 7);
  StepData data(layer_case(), 7);
  int32_t count = 0;
  for (int32_t rank = 0; rank < data.num_ranks(); ++rank) {
    for (size_t i = 0; i < data.topk_weights[rank].size(); ++i) {
      const auto pair = static_cast<int32_t>(i);
      if (data.routing[rank].expert_at(pair / 3, pair % 3) >= 0) continue;
      data.topk_weights[rank][i] = GetParam().bad;
      ++count;
    }
  }
  ASSERT_GT(count, 10);
  const StepOutput a = StepRig(clean).step();
  const StepOutput b = StepRig(data).step();
  EXPECT_EQ(token_difference(a, b) + gradient_difference(a, b), "");
}

INSTANTIATE_TEST_SUITE_P(Kinds, Isolation,
                         testing::Values(Kind{DType::kFp32, false, ZChoice::kSaved, kNan},
                                         Kind{DType::kBf16, true, ZChoice::kSaved, kInfinity},
                                         Kind{DType::kBf16, true, ZChoice::kRecomputed, kNan},
                                         Kind{DType::kFp32, true, ZChoice::kRecomputed,
                                              kInfinity}));

}  // namespace
}  // namespace megaflux
