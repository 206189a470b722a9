#include "parity/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "megaflux/moe/owner_table.h"

namespace megaflux {
namespace {

// Running sums of squares.
struct Distance {
  double difference = 0;
  double expected = 0;
  void add(double got, double want) {
    difference += (got - want) * (got - want);
    expected += want * want;
  }
  double relative() const {
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    if (difference == 0) return 0;
    return std::sqrt(difference / std::max(expected, 1e-300));
  }
};

void add_all(Distance& distance, const TypedVector& got, std::span<const double> want,
             int64_t first = 0) {
  for (size_t i = 0; i < want.size(); ++i) {
    distance.add(got.at(first + static_cast<int64_t>(i)), want[i]);
  }
}

void add_all(Distance& distance, std::span<const float> got, std::span<const double> want) {
  for (size_t i = 0; i < want.size(); ++i) distance.add(got[i], want[i]);
}

bool is_equal(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace

double Errors::worst_gradient() const {
  return std::max({dx, dp, w1, w2, b1, b2});
}

double output_tolerance(const LayerShape& shape) {
  return shape.dtype == DType::kBf16 ? 1.2e-2 : 3e-6;
}

double gradient_tolerance(const LayerShape& shape) {
  const bool jumps = shape.activation.kind == Activation::Kind::kClampedSwiGlu;
  return shape.dtype == DType::kBf16 && jumps ? 8e-2 : output_tolerance(shape);
}

Errors errors_of(const StepData& data, const StepOutput& out, const ReferenceOutput& expected) {
  Distance y, dx, dp, w1, w2, b1, b2;
  for (int32_t rank = 0; rank < data.num_ranks(); ++rank) {
    add_all(y, out.y[rank], expected.y[rank]);
    add_all(dx, out.dx[rank], expected.dx[rank]);
    add_all(dp, out.dp[rank], expected.dp[rank]);
  }
  const auto local = local_index_of(data.owner_of, data.num_ranks());
  for (int32_t e = 0; e < data.shape().num_experts; ++e) {
    const ExpertGradient& gradient = expected.gradients[e];
    const int32_t owner = data.owner_of[e];
    add_all(w1, out.w1[owner], gradient.w1, local[e] * data.shape().w1_elements());
    add_all(w2, out.w2[owner], gradient.w2, local[e] * data.shape().w2_elements());
    if (!data.shape().has_bias) continue;
    add_all(b1, std::span(out.b1[owner]).subspan(local[e] * gradient.b1.size()), gradient.b1);
    add_all(b2, std::span(out.b2[owner]).subspan(local[e] * gradient.b2.size()), gradient.b2);
  }
  return {y.relative(),  dx.relative(), dp.relative(), w1.relative(),
          w2.relative(), b1.relative(), b2.relative()};
}

std::string token_difference(const StepOutput& a, const StepOutput& b) {
  for (size_t rank = 0; rank < a.y.size(); ++rank) {
    const std::string where = " of rank " + std::to_string(rank);
    if (a.y[rank].bytes != b.y[rank].bytes) return "y" + where;
    if (a.dx[rank].bytes != b.dx[rank].bytes) return "dX" + where;
    if (!is_equal(a.dp[rank], b.dp[rank])) return "dp" + where;
  }
  return "";
}

std::string gradient_difference(const StepOutput& a, const StepOutput& b) {
  for (size_t rank = 0; rank < a.w1.size(); ++rank) {
    const std::string where = " of rank " + std::to_string(rank);
    if (a.w1[rank].bytes != b.w1[rank].bytes) return "dW1" + where;
    if (a.w2[rank].bytes != b.w2[rank].bytes) return "dW2" + where;
    if (!is_equal(a.b1[rank], b.b1[rank])) return "db1" + where;
    if (!is_equal(a.b2[rank], b.b2[rank])) return "db2" + where;
  }
  return "";
}

}  // namespace megaflux
