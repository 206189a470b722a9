#include "megaflux/layer/reference/expert_rows.h"

#include <algorithm>
#include <cmath>

#include "megaflux/base/bf16.h"
#include "megaflux/base/vector_clones.h"

namespace megaflux {
namespace {

// Independent partial sums, so that the compiler may keep them in vector registers.
constexpr int64_t kLanes = 8;

MF_VECTOR_CLONES double dot(const double* a, const double* b, int64_t length) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= length; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
  }
  double sum = 0;
  for (; i < length; ++i) sum += a[i] * b[i];
  for (const double lane : lanes) sum += lane;
  return sum;
}

// out[r, j] = <rows[r, :], matrix[j, :]> for a row-major `matrix` [height, width]; out is [n,
// height].
void times_transposed(std::span<const double> rows, const void* matrix, DType dtype, int64_t height,
                      int64_t width, std::vector<double>& out) {
  const int64_t n = static_cast<int64_t>(rows.size()) / width;
  out.assign(n * height, 0.0);
  std::vector<double> line(width);
  for (int64_t j = 0; j < height; ++j) {
    widen_elements(matrix, dtype, j * width, line);
    for (int64_t r = 0; r < n; ++r) {
      out[r * height + j] = dot(line.data(), rows.data() + r * width, width);
    }
  }
}

// Lines of the matrix that times_plain takes in one pass: a quarter of the traffic to its output.
constexpr int64_t kLines = 4;

// sum[i] += sum_l scale[l] lines[l, i] for kLines lines of `width`.
MF_VECTOR_CLONES void add_four_lines(const double* scale, const double* __restrict lines,
                                     int64_t width, double* __restrict sum) {
  for (int64_t i = 0; i < width; ++i) {
    sum[i] += (scale[0] * lines[i] + scale[1] * lines[width + i]) +
              (scale[2] * lines[2 * width + i] + scale[3] * lines[3 * width + i]);
  }
}

// out[r, :] = sum_j rows[r, j] matrix[j, :] for a row-major `matrix` [height, width]; out is [n,
// width].
void times_plain(std::span<const double> rows, const void* matrix, DType dtype, int64_t height,
                 int64_t width, std::vector<double>& out) {
  const int64_t n = static_cast<int64_t>(rows.size()) / height;
  out.assign(n * width, 0.0);
  std::vector<double> lines(kLines * width);
  for (int64_t j = 0; j < height; j += kLines) {
    const int64_t count = std::min(kLines, height - j);
    std::fill(lines.begin(), lines.end(), 0.0);
    widen_elements(matrix, dtype, j * width, std::span(lines).first(count * width));
    for (int64_t r = 0; r < n; ++r) {
      double scale[kLines] = {};
      for (int64_t l = 0; l < count; ++l) scale[l] = rows[r * height + j + l];
      add_four_lines(scale, lines.data(), width, out.data() + r * width);
    }
  }
}

void add_bias(std::vector<double>& rows, const float* bias, int64_t width) {
  if (bias == nullptr) return;
  for (size_t i = 0; i < rows.size(); ++i) rows[i] += bias[static_cast<int64_t>(i) % width];
}

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

}  // namespace

double element_at(const void* data, DType dtype, int64_t index) {
  return dtype == DType::kBf16 ? static_cast<float>(static_cast<const Bf16*>(data)[index])
                               : static_cast<const float*>(data)[index];
}

void widen_elements(const void* data, DType dtype, int64_t first, std::span<double> out) {
  if (dtype == DType::kBf16) {
    const Bf16* source = static_cast<const Bf16*>(data) + first;
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(source[i]);
  } else {
    const float* source = static_cast<const float*>(data) + first;
    for (size_t i = 0; i < out.size(); ++i) out[i] = source[i];
  }
}

ActivationPoint activate(const Activation& activation, double gate, double up) {
  if (activation.kind == Activation::Kind::kSwiGlu) {
    const double s = sigmoid(gate);
    return {gate * s * up, up * s * (1.0 + gate * (1.0 - s)), gate * s};
  }
  const double limit = activation.limit;
  const double alpha = activation.alpha;
  const double g = std::min(gate, limit);
  const double u = std::clamp(up, -limit, limit);
  const double s = sigmoid(alpha * g);
  // On the boundary the clamp passes its gradient.
  const double pass_gate = gate <= limit ? 1.0 : 0.0;
  const double pass_up = up >= -limit && up <= limit ? 1.0 : 0.0;
  return {(u + 1.0) * g * s, pass_gate * (u + 1.0) * s * (1.0 + alpha * g * (1.0 - s)),
          pass_up * g * s};
}

int64_t gate_row(const LayerShape& shape, int64_t channel) {
  return shape.gate_order == GateOrder::kGateUp ? channel : shape.inter + channel;
}

int64_t up_row(const LayerShape& shape, int64_t channel) {
  return shape.gate_order == GateOrder::kGateUp ? shape.inter + channel : channel;
}

ForwardRows forward_rows(const LayerShape& shape, const ExpertView& expert,
                         std::span<const double> x) {
  const int64_t n = static_cast<int64_t>(x.size()) / shape.hidden;
  const int64_t inter = shape.inter;
  ForwardRows rows;
  times_transposed(x, expert.w1, shape.dtype, 2 * inter, shape.hidden, rows.z);
  add_bias(rows.z, expert.b1, 2 * inter);
  rows.a.resize(n * inter);
  for (int64_t r = 0; r < n; ++r) {
    const double* z = rows.z.data() + r * 2 * inter;
    for (int64_t i = 0; i < inter; ++i) {
      rows.a[r * inter + i] =
          activate(shape.activation, z[gate_row(shape, i)], z[up_row(shape, i)]).value;
    }
  }
  times_transposed(rows.a, expert.w2, shape.dtype, shape.hidden, inter, rows.o);
  add_bias(rows.o, expert.b2, shape.hidden);
  return rows;
}

BackwardRows backward_rows(const LayerShape& shape, const ExpertView& expert,
                           const ForwardRows& forward, std::span<const double> d,
                           std::span<const double> p) {
  const int64_t n = static_cast<int64_t>(p.size());
  const int64_t inter = shape.inter;
  BackwardRows rows;
  std::vector<double> da;
  times_plain(d, expert.w2, shape.dtype, shape.hidden, inter, da);
  rows.dz.resize(n * 2 * inter);
  rows.pa.resize(n * inter);
  rows.dp.resize(n);
  for (int64_t r = 0; r < n; ++r) {
    const double* z = forward.z.data() + r * 2 * inter;
    double* dz = rows.dz.data() + r * 2 * inter;
    for (int64_t i = 0; i < inter; ++i) {
      const int64_t gate = gate_row(shape, i);
      const int64_t up = up_row(shape, i);
      const ActivationPoint point = activate(shape.activation, z[gate], z[up]);
      const double da_here = da[r * inter + i];
      dz[gate] = p[r] * da_here * point.d_gate;
      dz[up] = p[r] * da_here * point.d_up;
      rows.pa[r * inter + i] = p[r] * point.value;
      rows.dp[r] += da_here * point.value;
    }
    if (expert.b2 == nullptr) continue;
    for (int64_t h = 0; h < shape.hidden; ++h) rows.dp[r] += d[r * shape.hidden + h] * expert.b2[h];
  }
  times_plain(rows.dz, expert.w1, shape.dtype, 2 * inter, shape.hidden, rows.dx);
  return rows;
}

}  // namespace megaflux
