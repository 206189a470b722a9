// LPLB's shipped solver, in fp32 as there: the shares, and whether it falls back, are what floats
// make of it. Every operation is one IEEE operation in a fixed order, so they are the same on every
// machine.
//
// Rows of A: g ranks, then one a variable. Columns: a share kept and a share given for every
// variable, g slacks, t, and one artificial column that makes the all-ones vector feasible.
//   rank r:      fixed_r + sum kept u + sum given u + slack_r - t = 0
//   variable v:  kept_v + given_v = 1
#include <algorithm>
#include <cmath>

#include "megaflux/plan/baselines/lplb.h"

namespace megaflux {
namespace {

constexpr int32_t kSteps = 5;
constexpr float kStepSize = 0.999f;
constexpr float kArtificialCost = 1000.0f;
constexpr float kMaxDirection = 0.1f;  // of the last step
constexpr float kMaxArtificial = 1e-4f;
constexpr float kMaxResidual = 0.05f;

class InteriorPoint {
 public:
  InteriorPoint(const LplbProblem& problem, int64_t scale);

  // False if the result is not to be trusted.
  bool run();
  float kept(size_t variable) const { return x_[variable]; }

 private:
  float& at(size_t row, size_t column) { return a_[row * columns_ + column]; }
  float at(size_t row, size_t column) const { return a_[row * columns_ + column]; }
  bool solve_duals();
  bool factorise();
  float step();
  float residual() const;

  size_t variables_, ranks_, rows_, columns_;
  std::vector<float> a_;       // [rows, columns]
  std::vector<float> b_;       // [rows]
  std::vector<float> c_;       // [columns]
  std::vector<float> x_;       // [columns]
  std::vector<float> normal_;  // [rows, rows] A X^2 A^T, then its factor
  std::vector<float> y_;       // [rows]
};

InteriorPoint::InteriorPoint(const LplbProblem& problem, int64_t scale)
    : variables_(problem.variables.size()),
      ranks_(problem.fixed.size()),
      rows_(ranks_ + variables_),
      columns_(2 * variables_ + ranks_ + 2),
      a_(rows_ * columns_, 0.0f),
      b_(rows_, 1.0f),
      c_(columns_, 0.0f),
      x_(columns_, 1.0f),
      normal_(rows_ * rows_),
      y_(rows_) {
  const size_t t = columns_ - 2, artificial = columns_ - 1;
  const auto scaled = [&](int64_t rows) {
    return static_cast<float>(rows) / static_cast<float>(scale);
  };
  for (size_t v = 0; v < variables_; ++v) {
    const LplbVariable& variable = problem.variables[v];
    at(variable.owner, v) += scaled(variable.rows);
    at(variable.host, variables_ + v) += scaled(variable.rows);
    at(ranks_ + v, v) = at(ranks_ + v, variables_ + v) = 1.0f;
  }
  for (size_t r = 0; r < ranks_; ++r) {
    at(r, 2 * variables_ + r) = 1.0f;
    at(r, t) = -1.0f;
    b_[r] = -scaled(problem.fixed[r]);
  }
  for (size_t row = 0; row < rows_; ++row) {
    float sum = 0.0f;
    for (size_t column = 0; column < artificial; ++column) sum += at(row, column);
    at(row, artificial) = b_[row] - sum;
  }
  c_[t] = 1.0f;
  c_[artificial] = kArtificialCost;
}

// Cholesky, in place; false if the matrix is not positive definite in fp32.
bool InteriorPoint::factorise() {
  for (size_t j = 0; j < rows_; ++j) {
    float* own = normal_.data() + j * rows_;
    for (size_t i = 0; i < j; ++i) {
      const float* other = normal_.data() + i * rows_;
      for (size_t k = 0; k < i; ++k) own[i] -= own[k] * other[k];
      own[i] /= other[i];
    }
    for (size_t k = 0; k < j; ++k) own[j] -= own[k] * own[k];
    if (!(own[j] > 0.0f)) return false;
    own[j] = std::sqrt(own[j]);
  }
  return true;
}

// (A X^2 A^T) y = A X^2 c.
bool InteriorPoint::solve_duals() {
  for (size_t i = 0; i < rows_; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      float sum = 0.0f;
      for (size_t k = 0; k < columns_; ++k) sum += at(i, k) * x_[k] * (at(j, k) * x_[k]);
      normal_[i * rows_ + j] = sum;
    }
    y_[i] = 0.0f;
    for (size_t k = 0; k < columns_; ++k) y_[i] += at(i, k) * x_[k] * (c_[k] * x_[k]);
  }
  if (!factorise()) return false;
  for (size_t i = 0; i < rows_; ++i) {
    for (size_t k = 0; k < i; ++k) y_[i] -= normal_[i * rows_ + k] * y_[k];
    y_[i] /= normal_[i * rows_ + i];
  }
  for (size_t i = rows_; i-- > 0;) {
    for (size_t k = i + 1; k < rows_; ++k) y_[i] -= normal_[k * rows_ + i] * y_[k];
    y_[i] /= normal_[i * rows_ + i];
  }
  return true;
}

// x <- x (1 - 0.999 / max(d) d), d = x (c - A^T y); returns max(d), which is not positive if there
// is nowhere to go.
float InteriorPoint::step() {
  std::vector<float> d(columns_);
  for (size_t k = 0; k < columns_; ++k) {
    float reduced = c_[k];
    for (size_t i = 0; i < rows_; ++i) reduced -= at(i, k) * y_[i];
    d[k] = x_[k] * reduced;
  }
  const float largest = *std::max_element(d.begin(), d.end());
  if (!(largest > 0.0f)) return largest;
  for (size_t k = 0; k < columns_; ++k) x_[k] *= 1.0f - kStepSize / largest * d[k];
  return largest;
}

float InteriorPoint::residual() const {
  float worst = 0.0f;
  for (size_t i = 0; i < rows_; ++i) {
    float sum = -b_[i];
    for (size_t k = 0; k < columns_; ++k) sum += at(i, k) * x_[k];
    worst = std::max(worst, std::abs(sum));
  }
  return worst;
}

bool InteriorPoint::run() {
  float largest = 0.0f;
  for (int32_t i = 0; i < kSteps; ++i) {
    if (!solve_duals()) return false;
    largest = step();
    if (!(largest > 0.0f)) return false;
  }
  const float artificial = x_[columns_ - 1];
  return largest < kMaxDirection && artificial >= 0.0f && artificial < kMaxArtificial &&
         residual() < kMaxResidual;
}

}  // namespace

LplbShares solve_lplb_interior_point(const LplbProblem& problem, int64_t scale) {
  InteriorPoint solver(problem, std::max<int64_t>(1, scale));
  LplbShares shares{.accepted = solver.run(),
                    .kept = std::vector<float>(problem.variables.size(), 0.5f)};
  if (!shares.accepted) return shares;
  for (size_t v = 0; v < shares.kept.size(); ++v) {
    shares.kept[v] = std::clamp(solver.kept(v), 0.0f, 1.0f);
  }
  return shares;
}

}  // namespace megaflux
