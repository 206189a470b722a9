// Checks and accessors of a ReferenceProblem.
#pragma once

#include "megaflux/layer/reference/reference.h"
#include "megaflux/layer/reference/row_order.h"

namespace megaflux {

// Throws kBadInput naming the argument, its value and what is expected.
void check_problem(const ReferenceProblem& problem);

// p of one row.
inline double routing_weight(const ReferenceProblem& problem, const RowSource& source) {
  return problem.routing[source.rank]
      .topk_weights[int64_t{source.token} * problem.shape.topk + source.k];
}

}  // namespace megaflux
