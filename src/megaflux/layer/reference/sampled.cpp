// The sampled form of the reference: chosen tokens and chosen gradient entries.
#include <algorithm>
#include <atomic>
#include <functional>
#include <future>

#include "megaflux/base/check.h"
#include "megaflux/layer/reference/problem.h"

namespace megaflux {
namespace {

// Calls fn(i) for all i in [0, count) on `num_threads` threads; every i writes memory of its own.
// Throws what a call threw.
void for_each_index(int32_t count, int32_t num_threads, const std::function<void(int32_t)>& fn) {
  std::atomic<int32_t> next{0};
  const auto work = [&] {
    for (int32_t i = next++; i < count; i = next++) fn(i);
  };
  // Each waits for its thread when it goes, in whatever way.
  std::vector<std::future<void>> others;
  for (int32_t t = 1; t < num_threads; ++t) {
    others.push_back(std::async(std::launch::async, work));
  }
  work();
  for (std::future<void>& other : others) other.get();
}

// A row of the sample: which sampled token, which k.
struct SampledRow {
  int32_t sample = 0;
  int32_t k = 0;
};

// Results of one expert's rows, added up in k order afterwards.
struct ExpertSample {
  std::vector<SampledRow> rows;
  std::vector<double> p;
  std::vector<double> o;   // [n, H]
  std::vector<double> dx;  // [n, H]
  std::vector<double> dp;  // [n]
};

std::vector<ExpertSample> group_by_expert(const ReferenceProblem& problem,
                                          std::span<const TokenRef> tokens) {
  std::vector<ExpertSample> samples(problem.shape.num_experts);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const TokenRef& token = tokens[i];
    MF_CHECK(token.rank >= 0 && token.rank < static_cast<int32_t>(problem.routing.size()),
             "tokens[", i, "].rank: ", token.rank, " is outside [0, ", problem.routing.size(), ")");
    const RoutingView& routing = problem.routing[token.rank];
    MF_CHECK(token.token >= 0 && token.token < routing.num_tokens, "tokens[", i,
             "].token: ", token.token, " is outside [0, ", routing.num_tokens, ")");
    if (token.token >= routing.valid_tokens()) continue;
    for (int32_t k = 0; k < routing.topk; ++k) {
      const int64_t expert = routing.expert_at(token.token, k);
      if (expert < 0) continue;
      samples[expert].rows.push_back({static_cast<int32_t>(i), k});
      samples[expert].p.push_back(routing_weight(problem, {token.rank, token.token, k}));
    }
  }
  return samples;
}

std::vector<double> gather_tokens(const ReferenceProblem& problem,
                                  std::span<const void* const> tensors,
                                  std::span<const TokenRef> tokens,
                                  std::span<const SampledRow> rows) {
  const int64_t hidden = problem.shape.hidden;
  std::vector<double> out(rows.size() * hidden);
  for (size_t r = 0; r < rows.size(); ++r) {
    const TokenRef& token = tokens[rows[r].sample];
    widen_elements(tensors[token.rank], problem.shape.dtype, token.token * hidden,
                   std::span(out).subspan(r * hidden, hidden));
  }
  return out;
}

void run_expert(const ReferenceProblem& problem, std::span<const TokenRef> tokens, int32_t expert,
                ExpertSample& sample) {
  if (sample.rows.empty()) return;
  const ExpertView& weights = problem.experts[expert];
  ForwardRows forward =
      forward_rows(problem.shape, weights, gather_tokens(problem, problem.x, tokens, sample.rows));
  if (!problem.dy.empty()) {
    BackwardRows backward =
        backward_rows(problem.shape, weights, forward,
                      gather_tokens(problem, problem.dy, tokens, sample.rows), sample.p);
    sample.dx = std::move(backward.dx);
    sample.dp = std::move(backward.dp);
  }
  sample.o = std::move(forward.o);
}

double dot_elements(const void* a, int64_t first_a, int64_t stride_a, const void* b,
                    int64_t first_b, DType dtype, int64_t length) {
  double sum = 0;
  for (int64_t i = 0; i < length; ++i) {
    sum += element_at(a, dtype, first_a + i * stride_a) * element_at(b, dtype, first_b + i);
  }
  return sum;
}

// Activation of `channel` for one row, from the inputs.
ActivationPoint channel_point(const ReferenceProblem& problem, const ExpertView& expert,
                              const RowSource& source, int64_t channel) {
  const LayerShape& shape = problem.shape;
  const auto z = [&](int64_t row) {
    const double bias = shape.has_bias ? expert.b1[row] : 0.0f;
    return bias + dot_elements(expert.w1, row * shape.hidden, 1, problem.x[source.rank],
                               int64_t{source.token} * shape.hidden, shape.dtype, shape.hidden);
  };
  return activate(shape.activation, z(gate_row(shape, channel)), z(up_row(shape, channel)));
}

// dZ of one row and one of W1's 2I rows.
double dz_entry(const ReferenceProblem& problem, const ExpertView& expert, const RowSource& source,
                int64_t w1_row) {
  const LayerShape& shape = problem.shape;
  const int64_t channel = w1_row % shape.inter;
  const ActivationPoint point = channel_point(problem, expert, source, channel);
  const double da = dot_elements(expert.w2, channel, shape.inter, problem.dy[source.rank],
                                 int64_t{source.token} * shape.hidden, shape.dtype, shape.hidden);
  const bool is_gate = gate_row(shape, channel) == w1_row;
  return routing_weight(problem, source) * da * (is_gate ? point.d_gate : point.d_up);
}

double gradient_term(const ReferenceProblem& problem, const GradientEntry& entry,
                     const RowSource& source) {
  const LayerShape& shape = problem.shape;
  const ExpertView& expert = problem.experts[entry.expert];
  const int64_t first = int64_t{source.token} * shape.hidden;
  switch (entry.parameter) {
    case Parameter::kW1:
      return dz_entry(problem, expert, source, entry.row) *
             element_at(problem.x[source.rank], shape.dtype, first + entry.col);
    case Parameter::kB1:
      return dz_entry(problem, expert, source, entry.row);
    case Parameter::kW2:
      return element_at(problem.dy[source.rank], shape.dtype, first + entry.row) *
             routing_weight(problem, source) *
             channel_point(problem, expert, source, entry.col).value;
    case Parameter::kB2:
      return routing_weight(problem, source) *
             element_at(problem.dy[source.rank], shape.dtype, first + entry.row);
  }
  return 0;
}

void check_entry(const LayerShape& shape, const GradientEntry& entry) {
  const bool is_first = entry.parameter == Parameter::kW1 || entry.parameter == Parameter::kB1;
  const bool is_matrix = entry.parameter == Parameter::kW1 || entry.parameter == Parameter::kW2;
  const int32_t height = is_first ? 2 * shape.inter : shape.hidden;
  const int32_t width = !is_matrix ? 1 : (is_first ? shape.hidden : shape.inter);
  MF_CHECK(is_matrix || shape.has_bias, "entries: a bias gradient of a layer without biases");
  MF_CHECK(entry.expert >= 0 && entry.expert < shape.num_experts, "entries: expert ", entry.expert,
           " is outside [0, ", shape.num_experts, ")");
  MF_CHECK(entry.row >= 0 && entry.row < height && entry.col >= 0 && entry.col < width,
           "entries: (", entry.row, ", ", entry.col, ") is outside [", height, ", ", width, "]");
}

}  // namespace

SampledTokens reference_tokens(const ReferenceProblem& problem, std::span<const TokenRef> tokens,
                               int32_t num_threads) {
  check_problem(problem);
  std::vector<ExpertSample> samples = group_by_expert(problem, tokens);
  for_each_index(problem.shape.num_experts, num_threads,
                 [&](int32_t e) { run_expert(problem, tokens, e, samples[e]); });
  const int64_t hidden = problem.shape.hidden;
  const bool has_backward = !problem.dy.empty();
  SampledTokens out;
  out.y.resize(tokens.size() * hidden);
  out.dx.resize(has_backward ? tokens.size() * hidden : 0);
  out.dp.resize(has_backward ? tokens.size() * problem.shape.topk : 0);
  for (const ExpertSample& sample : samples) {
    for (size_t r = 0; r < sample.rows.size(); ++r) {
      const SampledRow& row = sample.rows[r];
      for (int64_t h = 0; h < hidden; ++h) {
        out.y[row.sample * hidden + h] += sample.p[r] * sample.o[r * hidden + h];
        if (has_backward) out.dx[row.sample * hidden + h] += sample.dx[r * hidden + h];
      }
      if (has_backward) out.dp[int64_t{row.sample} * problem.shape.topk + row.k] = sample.dp[r];
    }
  }
  return out;
}

std::vector<double> reference_gradients(const ReferenceProblem& problem,
                                        std::span<const GradientEntry> entries,
                                        int32_t num_threads) {
  check_problem(problem);
  MF_CHECK(!problem.dy.empty(), "dy: empty, gradients need it");
  for (const GradientEntry& entry : entries) check_entry(problem.shape, entry);
  const RowOrder order(problem.routing, problem.shape.num_experts);
  std::vector<double> out(entries.size());
  for_each_index(static_cast<int32_t>(entries.size()), num_threads, [&](int32_t i) {
    for (const RowSource& source : order.rows_of(entries[i].expert)) {
      out[i] += gradient_term(problem, entries[i], source);
    }
  });
  return out;
}

}  // namespace megaflux
