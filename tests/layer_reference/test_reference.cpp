// The reference against finite differences, worked numbers, and itself in its two forms.
#include "megaflux/layer/reference/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/base/rng.h"
#include "megaflux/layer/reference/row_order.h"
#include "megaflux/moe/owner_table.h"

namespace megaflux {
namespace {

// A small fp32 problem whose every number can be nudged.
struct SmallProblem {
  explicit SmallProblem(const LayerShape& layer_shape, std::vector<std::vector<int32_t>> token_ids)
      : shape(layer_shape), ids(std::move(token_ids)) {
    Rng rng(5);
    const auto draw = [&](int64_t count, float scale) {
      std::vector<float> values(count);
      for (float& value : values) value = rng.symmetric(scale);
      return values;
    };
    for (const auto& of_rank : ids) {
      const auto tokens = static_cast<int64_t>(of_rank.size()) / shape.topk;
      x.push_back(draw(tokens * shape.hidden, 1.0f));
      dy.push_back(draw(tokens * shape.hidden, 1.0f));
      p.push_back(draw(tokens * shape.topk, 1.0f));
    }
    for (int32_t e = 0; e < shape.num_experts; ++e) {
      w1.push_back(draw(shape.w1_elements(), 1.0f));
      w2.push_back(draw(shape.w2_elements(), 1.0f));
      b1.push_back(draw(2 * shape.inter, 0.5f));
      b2.push_back(draw(shape.hidden, 0.5f));
    }
  }

  ReferenceProblem view() {
    routing.clear();
    x_pointers.clear();
    dy_pointers.clear();
    experts.clear();
    for (size_t rank = 0; rank < ids.size(); ++rank) {
      routing.push_back({.num_tokens = static_cast<int32_t>(ids[rank].size()) / shape.topk,
                         .topk = shape.topk,
                         .topk_ids = ids[rank].data(),
                         .topk_weights = p[rank].data()});
      x_pointers.push_back(x[rank].data());
      dy_pointers.push_back(dy[rank].data());
    }
    for (int32_t e = 0; e < shape.num_experts; ++e) {
      experts.push_back({w1[e].data(), w2[e].data(), shape.has_bias ? b1[e].data() : nullptr,
                         shape.has_bias ? b2[e].data() : nullptr});
    }
    return {shape, routing, x_pointers, dy_pointers, experts};
  }

  Plan fixed_plan() {
    const RowOrder order(view().routing, shape.num_experts);
    std::vector<int32_t> blocks;
    for (int32_t e = 0; e < shape.num_experts; ++e) blocks.push_back(order.loads().blocks(e, 2));
    const auto ranks = static_cast<int32_t>(ids.size());
    const auto owners = contiguous_owners(shape.num_experts, ranks);
    Plan plan;
    plan.assign({.dims = {shape.num_experts, ranks, 0, 2},
                 .owner_of = owners,
                 .blocks = blocks,
                 .replicas = {}});
    return plan;
  }

  // <dY, y>: the scalar whose gradients the backward computes.
  double loss() {
    const ReferenceOutput out = reference_output(view(), fixed_plan());
    double sum = 0;
    for (size_t rank = 0; rank < dy.size(); ++rank) {
      for (size_t i = 0; i < dy[rank].size(); ++i) sum += double{dy[rank][i]} * out.y[rank][i];
    }
    return sum;
  }

  // Central difference of the loss by `value`, over the step that fp32 really takes.
  double slope(float& value) {
    const float before = value;
    value = before + 1e-3f;
    const double high = value;
    const double above = loss();
    value = before - 1e-3f;
    const double low = value;
    const double below = loss();
    value = before;
    return (above - below) / (high - low);
  }

  LayerShape shape;
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::vector<float>> x, dy, p, w1, w2, b1, b2;
  std::vector<RoutingView> routing;
  std::vector<const void*> x_pointers, dy_pointers;
  std::vector<ExpertView> experts;
};

LayerShape small_shape() {
  return {.num_experts = 3, .topk = 2, .hidden = 4, .inter = 3, .dtype = DType::kFp32};
}

std::vector<std::vector<int32_t>> small_ids() {
  return {{0, 1, 2, -1, 1, 1}, {0, 2}};
}

void expect_slopes(SmallProblem& problem, std::vector<float>& values,
                   const std::vector<double>& gradient, const char* what) {
  ASSERT_EQ(values.size(), gradient.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(problem.slope(values[i]), gradient[i], 2e-5 * (1 + std::fabs(gradient[i])))
        << what << " " << i;
  }
}

void expect_finite_differences(const LayerShape& shape) {
  SmallProblem problem(shape, small_ids());
  const ReferenceOutput out = reference_output(problem.view(), problem.fixed_plan());
  for (size_t rank = 0; rank < problem.x.size(); ++rank) {
    expect_slopes(problem, problem.x[rank], out.dx[rank], "dX");
    expect_slopes(problem, problem.p[rank], out.dp[rank], "dp");
  }
  for (int32_t e = 0; e < shape.num_experts; ++e) {
    expect_slopes(problem, problem.w1[e], out.gradients[e].w1, "dW1");
    expect_slopes(problem, problem.w2[e], out.gradients[e].w2, "dW2");
    if (!shape.has_bias) continue;
    expect_slopes(problem, problem.b1[e], out.gradients[e].b1, "db1");
    expect_slopes(problem, problem.b2[e], out.gradients[e].b2, "db2");
  }
}

TEST(Reference, GradientsAreTheSlopesOfTheLoss) {
  for (const GateOrder order : {GateOrder::kGateUp, GateOrder::kUpGate}) {
    for (const bool has_bias : {false, true}) {
      for (const auto kind : {Activation::Kind::kSwiGlu, Activation::Kind::kClampedSwiGlu}) {
        LayerShape shape = small_shape();
        shape.gate_order = order;
        shape.has_bias = has_bias;
        shape.activation = {kind, 0.7f, 1.702f};
        expect_finite_differences(shape);
      }
    }
  }
}

TEST(Reference, WorkedExampleOfTheHeader) {
  SmallProblem problem(
      {.num_experts = 1, .topk = 1, .hidden = 2, .inter = 1, .dtype = DType::kFp32}, {{0}});
  problem.x = {{1, 2}};
  problem.w1 = {{1, 0, 0, 1}};
  problem.w2 = {{1, 3}};
  problem.p = {{0.5f}};
  const ReferenceOutput out = reference_output(problem.view(), problem.fixed_plan());
  EXPECT_NEAR(out.y[0][0], 0.731059, 1e-6);
  EXPECT_NEAR(out.y[0][1], 2.193176, 1e-6);
}

// IC_26: the two gate orders read W1's halves in opposite roles.
TEST(Reference, IC_26_GateOrderFlagIsHonoured) {
  SmallProblem problem(small_shape(), small_ids());
  const auto plan = problem.fixed_plan();
  const ReferenceOutput gate_first = reference_output(problem.view(), plan);
  problem.shape.gate_order = GateOrder::kUpGate;
  const ReferenceOutput up_first = reference_output(problem.view(), plan);
  EXPECT_GT(std::fabs(gate_first.y[0][0] - up_first.y[0][0]), 1e-3);
  const auto half = static_cast<std::ptrdiff_t>(problem.w1[0].size() / 2);
  for (auto& w1 : problem.w1) std::rotate(w1.begin(), w1.begin() + half, w1.end());
  const ReferenceOutput swapped = reference_output(problem.view(), plan);
  EXPECT_EQ(swapped.y, gate_first.y);
}

// IC_11: an id twice in a token counts twice and gets both weights.
TEST(Reference, IC_11_DuplicateIdsAddUp) {
  SmallProblem twice(small_shape(), {{1, 1}});
  SmallProblem once(small_shape(), {{1, -1}});
  once.x = twice.x;
  once.w1 = twice.w1;
  once.w2 = twice.w2;
  once.p = {{twice.p[0][0] + twice.p[0][1], 0}};
  const auto a = reference_output(twice.view(), twice.fixed_plan());
  const auto b = reference_output(once.view(), once.fixed_plan());
  for (size_t i = 0; i < a.y[0].size(); ++i) EXPECT_NEAR(a.y[0][i], b.y[0][i], 1e-6);
}

TEST(Reference, SampledFormsAgreeWithTheWhole) {
  LayerShape shape = small_shape();
  shape.has_bias = true;
  SmallProblem problem(shape, small_ids());
  const ReferenceProblem view = problem.view();
  const ReferenceOutput whole = reference_output(view, problem.fixed_plan());
  const std::vector<TokenRef> tokens = {{1, 0}, {0, 2}, {0, 0}, {0, 1}};
  const SampledTokens sampled = reference_tokens(view, tokens, 2);
  for (size_t i = 0; i < tokens.size(); ++i) {
    for (int32_t h = 0; h < shape.hidden; ++h) {
      const size_t at = static_cast<size_t>(tokens[i].token) * shape.hidden + h;
      EXPECT_NEAR(sampled.y[i * shape.hidden + h], whole.y[tokens[i].rank][at], 1e-12);
      EXPECT_NEAR(sampled.dx[i * shape.hidden + h], whole.dx[tokens[i].rank][at], 1e-12);
    }
    for (int32_t k = 0; k < shape.topk; ++k) {
      const size_t at = static_cast<size_t>(tokens[i].token) * shape.topk + k;
      EXPECT_NEAR(sampled.dp[i * shape.topk + k], whole.dp[tokens[i].rank][at], 1e-12);
    }
  }
  std::vector<GradientEntry> entries;
  for (int32_t e = 0; e < shape.num_experts; ++e) {
    for (int32_t i = 0; i < 3; ++i) {
      entries.push_back({e, Parameter::kW1, 2 * i, i});
      entries.push_back({e, Parameter::kW2, i, 2 - i});
      entries.push_back({e, Parameter::kB1, 5 - i, 0});
      entries.push_back({e, Parameter::kB2, i, 0});
    }
  }
  const std::vector<double> values = reference_gradients(view, entries, 3);
  for (size_t i = 0; i < entries.size(); ++i) {
    const GradientEntry& entry = entries[i];
    const ExpertGradient& gradient = whole.gradients[entry.expert];
    const double want =
        entry.parameter == Parameter::kW1   ? gradient.w1[entry.row * shape.hidden + entry.col]
        : entry.parameter == Parameter::kW2 ? gradient.w2[entry.row * shape.inter + entry.col]
        : entry.parameter == Parameter::kB1 ? gradient.b1[entry.row]
                                            : gradient.b2[entry.row];
    EXPECT_NEAR(values[i], want, 1e-12) << i;
  }
}

TEST(Reference, BadInputsAreNamed) {
  SmallProblem problem(small_shape(), small_ids());
  const auto plan = problem.fixed_plan();
  ReferenceProblem view = problem.view();
  view.x = view.x.first(1);
  EXPECT_THROW((void)reference_output(view, plan), Error);
  view = problem.view();
  view.experts = view.experts.first(2);
  EXPECT_THROW((void)reference_output(view, plan), Error);
  view = problem.view();
  const TokenRef beyond{0, 3};
  EXPECT_THROW((void)reference_tokens(view, {&beyond, 1}), Error);
  const GradientEntry outside{0, Parameter::kW1, 6, 0};
  EXPECT_THROW((void)reference_gradients(view, {&outside, 1}), Error);
  view.dy = {};
  EXPECT_THROW((void)reference_gradients(view, {}), Error);
}

TEST(RowOrder, WorkedExampleOfTheHeader) {
  const std::vector<int32_t> ids0 = {1, 0, 1, -1};
  const std::vector<int32_t> ids1 = {1, 1};
  const std::vector<float> p(4, 1.0f);
  const std::vector<RoutingView> routing = {
      {.num_tokens = 2, .topk = 2, .topk_ids = ids0.data(), .topk_weights = p.data()},
      {.num_tokens = 1, .topk = 2, .topk_ids = ids1.data(), .topk_weights = p.data()}};
  const RowOrder order(routing, 2);
  const std::vector<RowSource> expected = {{0, 0, 0}, {0, 1, 0}, {1, 0, 0}, {1, 0, 1}};
  EXPECT_EQ(std::vector<RowSource>(order.rows_of(1).begin(), order.rows_of(1).end()), expected);
  ASSERT_EQ(order.rows_of(0).size(), 1u);
  EXPECT_EQ(order.rows_of(0)[0], (RowSource{0, 0, 1}));
}

}  // namespace
}  // namespace megaflux
