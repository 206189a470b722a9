#include "megaflux/layer/reference/reference.h"

#include "megaflux/base/check.h"
#include "megaflux/layer/reference/problem.h"
#include "megaflux/moe/work_list.h"

namespace megaflux {
namespace {

// Rows of one expert, gathered from their sources.
struct GatheredRows {
  std::vector<double> x;  // [n, H]
  std::vector<double> d;  // [n, H], empty without dy
  std::vector<double> p;  // [n]
};

GatheredRows gather(const ReferenceProblem& problem, std::span<const RowSource> sources) {
  const int64_t hidden = problem.shape.hidden;
  GatheredRows rows;
  rows.x.resize(sources.size() * hidden);
  rows.d.resize(problem.dy.empty() ? 0 : sources.size() * hidden);
  for (size_t r = 0; r < sources.size(); ++r) {
    const RowSource& source = sources[r];
    widen_elements(problem.x[source.rank], problem.shape.dtype, source.token * hidden,
                   std::span(rows.x).subspan(r * hidden, hidden));
    rows.p.push_back(routing_weight(problem, source));
    if (problem.dy.empty()) continue;
    widen_elements(problem.dy[source.rank], problem.shape.dtype, source.token * hidden,
                   std::span(rows.d).subspan(r * hidden, hidden));
  }
  return rows;
}

// gradient += left^T right for [n, height] and [n, width].
void add_outer(std::span<const double> left, std::span<const double> right, int64_t height,
               int64_t width, std::vector<double>& gradient) {
  const int64_t n = static_cast<int64_t>(left.size()) / height;
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t i = 0; i < height; ++i) {
      const double scale = left[r * height + i];
      for (int64_t j = 0; j < width; ++j) gradient[i * width + j] += scale * right[r * width + j];
    }
  }
}

void add_gradient(const LayerShape& shape, const GatheredRows& rows, const BackwardRows& backward,
                  ExpertGradient& gradient) {
  add_outer(backward.dz, rows.x, int64_t{2} * shape.inter, shape.hidden, gradient.w1);
  add_outer(rows.d, backward.pa, shape.hidden, shape.inter, gradient.w2);
  if (!shape.has_bias) return;
  for (size_t i = 0; i < backward.dz.size(); ++i) {
    gradient.b1[i % gradient.b1.size()] += backward.dz[i];
  }
  for (size_t i = 0; i < rows.d.size(); ++i) {
    gradient.b2[i % gradient.b2.size()] += rows.p[i / gradient.b2.size()] * rows.d[i];
  }
}

ReferenceOutput make_output(const ReferenceProblem& problem) {
  const LayerShape& shape = problem.shape;
  const bool has_backward = !problem.dy.empty();
  ReferenceOutput out;
  for (const RoutingView& routing : problem.routing) {
    const auto num_tokens = static_cast<size_t>(routing.num_tokens);
    out.y.emplace_back(num_tokens * shape.hidden);
    if (!has_backward) continue;
    out.dx.emplace_back(num_tokens * shape.hidden);
    out.dp.emplace_back(num_tokens * shape.topk);
  }
  if (!has_backward) return out;
  out.gradients.resize(shape.num_experts);
  for (ExpertGradient& gradient : out.gradients) {
    gradient.w1.resize(shape.w1_elements());
    gradient.w2.resize(shape.w2_elements());
    gradient.b1.resize(shape.has_bias ? 2 * shape.inter : 0);
    gradient.b2.resize(shape.has_bias ? shape.hidden : 0);
  }
  return out;
}

void run_tile(const ReferenceProblem& problem, int32_t expert, std::span<const RowSource> sources,
              ReferenceOutput& out) {
  const LayerShape& shape = problem.shape;
  const int64_t hidden = shape.hidden;
  const GatheredRows rows = gather(problem, sources);
  const ForwardRows forward = forward_rows(shape, problem.experts[expert], rows.x);
  for (size_t r = 0; r < sources.size(); ++r) {
    double* y = out.y[sources[r].rank].data() + sources[r].token * hidden;
    for (int64_t h = 0; h < hidden; ++h) y[h] += rows.p[r] * forward.o[r * hidden + h];
  }
  if (problem.dy.empty()) return;
  const BackwardRows backward =
      backward_rows(shape, problem.experts[expert], forward, rows.d, rows.p);
  for (size_t r = 0; r < sources.size(); ++r) {
    const RowSource& source = sources[r];
    double* dx = out.dx[source.rank].data() + source.token * hidden;
    for (int64_t h = 0; h < hidden; ++h) dx[h] += backward.dx[r * hidden + h];
    out.dp[source.rank][int64_t{source.token} * shape.topk + source.k] = backward.dp[r];
  }
  add_gradient(shape, rows, backward, out.gradients[expert]);
}

}  // namespace

ReferenceOutput reference_output(const ReferenceProblem& problem, const Plan& plan) {
  check_problem(problem);
  const RowOrder order(problem.routing, problem.shape.num_experts);
  ReferenceOutput out = make_output(problem);
  std::vector<std::vector<uint8_t>> seen(problem.shape.num_experts);
  for (int32_t e = 0; e < problem.shape.num_experts; ++e) seen[e].resize(order.rows_of(e).size());
  int64_t computed = 0;
  WorkList list;
  for (int32_t rank = 0; rank < order.loads().num_ranks(); ++rank) {
    list.assign(plan, order.loads(), rank, PartOrder::kOwnedFirst);
    for (const Tile tile : list) {
      const int32_t expert = list.parts()[tile.part_idx].expert;
      for (int32_t r = tile.first_row; r < tile.first_row + tile.num_rows; ++r) {
        MF_INVARIANT(seen[expert][r] == 0, "row ", r, " of expert ", expert, " is computed twice");
        seen[expert][r] = 1;
      }
      computed += tile.num_rows;
      run_tile(problem, expert, order.rows_of(expert).subspan(tile.first_row, tile.num_rows), out);
    }
  }
  MF_INVARIANT(computed == order.loads().total_rows(), computed, " rows computed of ",
               order.loads().total_rows());
  return out;
}

}  // namespace megaflux
