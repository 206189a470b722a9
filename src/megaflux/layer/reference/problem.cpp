#include "megaflux/layer/reference/problem.h"

#include "megaflux/base/check.h"

namespace megaflux {

void check_problem(const ReferenceProblem& problem) {
  const LayerShape& shape = problem.shape;
  check_shape(shape);
  const size_t num_ranks = problem.routing.size();
  MF_CHECK(problem.x.size() == num_ranks, "x: ", problem.x.size(), " ranks given, routing has ",
           num_ranks);
  MF_CHECK(problem.dy.empty() || problem.dy.size() == num_ranks, "dy: ", problem.dy.size(),
           " ranks given, routing has ", num_ranks);
  MF_CHECK(problem.experts.size() == static_cast<size_t>(shape.num_experts),
           "experts: ", problem.experts.size(), " given, the shape has ", shape.num_experts);
  for (size_t e = 0; e < problem.experts.size(); ++e) {
    const ExpertView& expert = problem.experts[e];
    MF_CHECK(expert.w1 != nullptr && expert.w2 != nullptr, "experts[", e, "]: a weight is missing");
    MF_CHECK((expert.b1 != nullptr) == shape.has_bias && (expert.b2 != nullptr) == shape.has_bias,
             "experts[", e, "]: biases given = ", expert.b1 != nullptr, ", the shape says ",
             shape.has_bias);
  }
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    const RoutingView& routing = problem.routing[rank];
    MF_CHECK(routing.topk == shape.topk, "routing[", rank, "].topk: ", routing.topk,
             " given, the shape has ", shape.topk);
    MF_CHECK(routing.num_tokens == 0 || problem.x[rank] != nullptr, "x[", rank, "]: null for ",
             routing.num_tokens, " tokens");
    MF_CHECK(routing.num_tokens == 0 || problem.dy.empty() || problem.dy[rank] != nullptr, "dy[",
             rank, "]: null for ", routing.num_tokens, " tokens");
  }
}

}  // namespace megaflux
