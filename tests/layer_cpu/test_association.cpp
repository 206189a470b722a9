// The order of sums, against sums made here of the same terms, since an executor that is compared
// with itself agrees under any order. An expert's weight gradient: the owner's part, then each
// replica's, ranks ascending, one fp32 addition an element. A token: k ascending, one fp32 fma each
// from 0, and one rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "megaflux/base/bf16.h"
#include "megaflux/layer/cpu/vector_loops.h"
#include "megaflux/layer/reference/row_order.h"
#include "megaflux/moe/owner_table.h"
#include "parity/compare.h"

namespace megaflux {
namespace {

// One result a token, so that the rows of an instance are tokens of their own.
LayerCase layer_case() {
  LayerCase c;
  c.name = "association";
  c.shape = {.num_experts = 4, .topk = 1, .hidden = 24, .inter = 16, .dtype = DType::kFp32};
  c.tokens = {60, 70, 80, 90};
  c.replica_slots = 3;
  c.block_rows = 16;
  return c;
}

// The weight gradient of the instance alone: with dY = 0 elsewhere, all other parts are zeros.
StepOutput part_of_instance(const Plan& plan, int32_t expert, const Instance& instance) {
  StepData data(layer_case(), 91);
  const RowOrder order(data.routing, data.shape().num_experts);
  std::vector<std::vector<uint8_t>> is_kept;
  for (const int32_t tokens : data.layer_case.tokens) is_kept.emplace_back(tokens, uint8_t{0});
  const auto rows = order.rows_of(expert);
  const size_t first = static_cast<size_t>(instance.first_block) * plan.dims().block_rows;
  const size_t end = first + static_cast<size_t>(instance.num_blocks) * plan.dims().block_rows;
  for (size_t row = first; row < std::min(end, rows.size()); ++row) {
    is_kept[rows[row].rank][rows[row].token] = 1;
  }
  for (int32_t rank = 0; rank < data.num_ranks(); ++rank) {
    for (int64_t i = 0; i < data.dy[rank].size(); ++i) {
      if (is_kept[rank][i / data.shape().hidden] == 0) data.dy[rank].set(i, 0.0f);
    }
  }
  return CpuRig(data).step(plan);
}

float element(const TypedVector& values, int64_t i) {
  return static_cast<float>(values.at(i));
}

TEST(Association, OwnerFirstThenReplicasByAscendingRank) {
  const StepData data(layer_case(), 91);
  const Plan plan = spread_plan(data, 16);
  const StepOutput whole = CpuRig(data).step(plan);
  const auto local = local_index_of(data.owner_of, data.num_ranks());
  int32_t num_tried = 0;
  int64_t num_order_matters = 0;
  for (int32_t e = 0; e < data.shape().num_experts; ++e) {
    const auto instances = plan.instances_of(e);
    if (instances.size() < 3) continue;
    ++num_tried;
    std::vector<StepOutput> parts;
    for (const Instance& instance : instances) {
      if (instance.slot < 0) parts.insert(parts.begin(), part_of_instance(plan, e, instance));
      if (instance.slot >= 0) parts.push_back(part_of_instance(plan, e, instance));
    }
    const int32_t owner = data.owner_of[e];
    const int64_t size = data.shape().w1_elements();
    for (int64_t i = local[e] * size; i < (local[e] + 1) * size; ++i) {
      float sum = element(parts.front().w1[owner], i);
      float reversed = sum;
      for (size_t n = 1; n < parts.size(); ++n) {
        sum += element(parts[n].w1[owner], i);
        reversed += element(parts[parts.size() - n].w1[owner], i);
      }
      num_order_matters += sum != reversed;
      ASSERT_EQ(element(whole.w1[owner], i), sum) << "expert " << e << ", element " << i;
    }
  }
  EXPECT_GT(num_tried, 0);
  EXPECT_GT(num_order_matters, 0) << "another order would have given the same bits";
}

// A step in which only the k-th result of each token counts, with routing weight `p` or its own.
StepOutput only_result(const LayerCase& c, int32_t k, std::optional<float> p) {
  StepData data(c, 92);
  for (std::vector<float>& weights : data.topk_weights) {
    for (size_t i = 0; i < weights.size(); ++i) {
      const bool is_kept = static_cast<int32_t>(i) % c.shape.topk == k;
      weights[i] = is_kept ? p.value_or(weights[i]) : 0.0f;
    }
  }
  return CpuRig(data).step(plan_of(data, 5));
}

// Rounds `sum` as `like` stores it.
float stored(float sum, const TypedVector& like) {
  return like.dtype == DType::kBf16 ? round_to_bf16(sum) : sum;
}

TEST(Association, ResultsOfATokenByAscendingK) {
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    LayerCase c;
    c.name = "k_order";
    c.shape = {.num_experts = 6, .topk = 5, .hidden = 48, .inter = 16, .dtype = dtype};
    c.tokens = {120, 130};
    c.block_rows = 16;
    const StepData data(c, 92);
    const StepOutput whole = CpuRig(data).step(plan_of(data, 5));
    std::vector<StepOutput> o, dx;
    for (int32_t k = 0; k < c.shape.topk; ++k) {
      o.push_back(only_result(c, k, 1.0f));
      dx.push_back(only_result(c, k, std::nullopt));
    }
    int64_t num_y_order_matters = 0;
    int64_t num_dx_order_matters = 0;
    for (int32_t rank = 0; rank < data.num_ranks(); ++rank) {
      for (int64_t i = 0; i < data.x[rank].size(); ++i) {
        const int64_t first_pair = i / c.shape.hidden * c.shape.topk;
        float y = 0, y_reversed = 0, d = 0, d_reversed = 0;
        for (int32_t k = 0; k < c.shape.topk; ++k) {
          const int32_t from_end = c.shape.topk - 1 - k;
          const float* p = data.topk_weights[rank].data() + first_pair;
          y = std::fma(p[k], element(o[k].y[rank], i), y);
          y_reversed = std::fma(p[from_end], element(o[from_end].y[rank], i), y_reversed);
          d += element(dx[k].dx[rank], i);
          d_reversed += element(dx[from_end].dx[rank], i);
        }
        ASSERT_EQ(element(whole.y[rank], i), stored(y, whole.y[rank])) << "y, element " << i;
        ASSERT_EQ(element(whole.dx[rank], i), stored(d, whole.dx[rank])) << "dX, element " << i;
        num_y_order_matters += stored(y, whole.y[rank]) != stored(y_reversed, whole.y[rank]);
        num_dx_order_matters += stored(d, whole.dx[rank]) != stored(d_reversed, whole.dx[rank]);
      }
    }
    if (dtype == DType::kBf16) continue;  // there the order shows in one element of 30,000
    EXPECT_GT(num_y_order_matters, 0);
    EXPECT_GT(num_dx_order_matters, 0);
  }
}

// H = I = 1: products of two bf16 values are exact in fp32, so every rounding is in sight. A is
// rounded to bf16 before FC2, with whatever type the GEMM computes.
TEST(Association, TheActivationIsRoundedBeforeFc2) {
  LayerCase c;
  c.name = "one_by_one";
  c.shape = {.num_experts = 1, .topk = 1, .hidden = 1, .inter = 1};
  c.tokens = {300};
  c.replica_slots = 0;
  StepData data(c, 93);
  std::fill(data.topk_weights[0].begin(), data.topk_weights[0].end(), 1.0f);
  const StepOutput out = CpuRig(data).step(fixed_plan(data, 128));
  int32_t num_rounding_matters = 0;
  for (int64_t token = 0; token < 300; ++token) {
    const float x = element(data.x[0], token);
    const float gate = x * element(data.w1[0], 0);
    const float up = x * element(data.w1[0], 1);
    float a = 0;
    activate(c.shape.activation, &gate, &up, &a, 1);
    const float w2 = element(data.w2[0], 0);
    ASSERT_EQ(element(out.y[0], token), round_to_bf16(round_to_bf16(a) * w2)) << token;
    num_rounding_matters += round_to_bf16(round_to_bf16(a) * w2) != round_to_bf16(a * w2);
  }
  EXPECT_GT(num_rounding_matters, 0);
}

}  // namespace
}  // namespace megaflux
