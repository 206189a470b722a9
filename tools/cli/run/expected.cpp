#include "cli/run/expected.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cli/doctor/machine_probe.h"
#include "megaflux/base/math.h"
#include "megaflux/base/rng.h"

namespace megaflux::cli {
namespace {

constexpr int32_t kSampledRows = 512;
constexpr int32_t kSampledEntriesOfMatrix = 32;
// rows x H x I up to which everything is checked: about 20 s of plain loops on one core.
constexpr int64_t kMaxFullWork = 3'000'000'000;

// Norms of differences against norms of the reference, vector by vector. Vectors that are nearly
// zero are measured against `least_norm`, so that their rounding does not count as an error.
class ErrorMeter {
 public:
  explicit ErrorMeter(double least_norm) : least_norm_(least_norm) {}

  void add(std::span<const double> actual, std::span<const double> expected) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
      norm += expected[i] * expected[i];
    }
    if (difference == 0) return;
    const double error = std::sqrt(difference) / std::max(std::sqrt(norm), least_norm_);
    largest_ =
        std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(largest_, error);
  }
  double largest() const { return largest_; }

 private:
  double least_norm_;
  double largest_ = 0;
};

// Root of the mean squared norm of vectors of `width` elements.
double typical_norm(std::span<const double> values, int64_t width) {
  const double sum = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  const double count = static_cast<double>(values.size()) / static_cast<double>(width);
  return count > 0 ? std::sqrt(sum / count) : 0;
}

// A token's vector counts against at least this part of a typical one.
constexpr double kLeastPart = 0.05;

// Error over the tokens of one rank, `width` elements each.
double error_of_rank(const Buffer& actual, DType dtype, std::span<const double> expected,
                     int64_t width) {
  std::vector<double> row(static_cast<size_t>(width));
  ErrorMeter meter(kLeastPart * typical_norm(expected, width));
  for (size_t first = 0; first < expected.size(); first += row.size()) {
    widen_elements(actual.data(), dtype, static_cast<int64_t>(first), row);
    meter.add(row, expected.subspan(first, row.size()));
  }
  return meter.largest();
}

double error_of_dp(std::span<const float> actual, std::span<const double> expected, int64_t topk) {
  const std::vector<double> widened(actual.begin(), actual.end());
  ErrorMeter meter(typical_norm(expected, topk));
  for (size_t first = 0; first < expected.size(); first += static_cast<size_t>(topk)) {
    meter.add(std::span(widened).subspan(first, static_cast<size_t>(topk)),
              expected.subspan(first, static_cast<size_t>(topk)));
  }
  return meter.largest();
}

// Error over the experts: W1 and W2 apart.
double error_of_gradients(const Workload& workload, const std::vector<ExpertGradient>& expected,
                          const LayerOutputs& outputs) {
  ErrorMeter meter(0);
  for (int32_t e = 0; e < workload.shape().num_experts; ++e) {
    const int32_t rank = workload.owner_of()[e];
    const int64_t local = workload.local_index(e);
    for (const bool is_w1 : {true, false}) {
      const std::vector<double>& reference = is_w1 ? expected[e].w1 : expected[e].w2;
      const float* first = (is_w1 ? outputs.dw1 : outputs.dw2)[rank].data() +
                           local * static_cast<int64_t>(reference.size());
      meter.add(std::vector<double>(first, first + reference.size()), reference);
    }
  }
  return meter.largest();
}

// The sampled tokens' rows of an output, widened.
std::vector<double> gather(const std::vector<Buffer>& output, DType dtype,
                           std::span<const TokenRef> tokens, int64_t width) {
  std::vector<double> rows(tokens.size() * static_cast<size_t>(width));
  for (size_t i = 0; i < tokens.size(); ++i) {
    widen_elements(
        output[tokens[i].rank].data(), dtype, tokens[i].token * width,
        std::span(rows).subspan(i * static_cast<size_t>(width), static_cast<size_t>(width)));
  }
  return rows;
}

double error_of_rows(std::span<const double> actual, std::span<const double> expected,
                     int64_t width, double least_part) {
  ErrorMeter meter(least_part * typical_norm(expected, width));
  const auto step = static_cast<size_t>(width);
  for (size_t first = 0; first < expected.size(); first += step) {
    meter.add(actual.subspan(first, step), expected.subspan(first, step));
  }
  return meter.largest();
}

OutputErrors measure_sampled(const Workload& workload, const Expected& expected,
                             const LayerOutputs& outputs) {
  const LayerShape& shape = workload.shape();
  const auto& tokens = expected.samples.tokens;
  OutputErrors errors;
  errors.y = error_of_rows(gather(outputs.y, shape.dtype, tokens, shape.hidden),
                           expected.sampled_tokens.y, shape.hidden, kLeastPart);
  if (outputs.dx.empty()) return errors;
  errors.dx = error_of_rows(gather(outputs.dx, shape.dtype, tokens, shape.hidden),
                            expected.sampled_tokens.dx, shape.hidden, kLeastPart);
  std::vector<double> dp;
  for (const TokenRef& token : tokens) {
    const auto first = outputs.dp[token.rank].begin() + int64_t{token.token} * shape.topk;
    dp.insert(dp.end(), first, first + shape.topk);
  }
  errors.dp = error_of_rows(dp, expected.sampled_tokens.dp, shape.topk, 1);
  errors.dw = error_of_rows(outputs.entries, expected.sampled_gradients, 1, 1);
  return errors;
}

OutputErrors measure_all(const Workload& workload, const Expected& expected,
                         const LayerOutputs& outputs) {
  const LayerShape& shape = workload.shape();
  OutputErrors errors;
  for (int32_t rank = 0; rank < workload.num_ranks(); ++rank) {
    errors.y = std::max(
        errors.y, error_of_rank(outputs.y[rank], shape.dtype, expected.all.y[rank], shape.hidden));
    if (outputs.dx.empty()) continue;
    errors.dx = std::max(errors.dx, error_of_rank(outputs.dx[rank], shape.dtype,
                                                  expected.all.dx[rank], shape.hidden));
    errors.dp =
        std::max(errors.dp, error_of_dp(outputs.dp[rank], expected.all.dp[rank], shape.topk));
  }
  if (!outputs.dx.empty()) {
    errors.dw = error_of_gradients(workload, expected.all.gradients, outputs);
  }
  return errors;
}

}  // namespace

Samples draw_samples(const Workload& workload, uint64_t seed) {
  Samples samples;
  const LayerShape& shape = workload.shape();
  Rng rng(mix64(seed + 0x5a));
  std::vector<TokenRef> tokens;
  for (int32_t rank = 0; rank < workload.num_ranks(); ++rank) {
    for (int32_t t = 0; t < workload.routing()[rank].num_tokens; ++t) tokens.push_back({rank, t});
  }
  const size_t wanted =
      std::min(tokens.size(), static_cast<size_t>(ceil_div(kSampledRows, shape.topk)));
  for (size_t i = 0; i < wanted; ++i) {
    std::swap(tokens[i], tokens[i + rng.below(static_cast<uint32_t>(tokens.size() - i))]);
    samples.tokens.push_back(tokens[i]);
  }
  std::vector<int32_t> experts(static_cast<size_t>(shape.num_experts));
  std::iota(experts.begin(), experts.end(), 0);
  const auto totals = workload.loads().totals();
  std::stable_sort(experts.begin(), experts.end(),
                   [&](int32_t a, int32_t b) { return totals[a] > totals[b]; });
  for (int32_t i = 0; i < kSampledEntriesOfMatrix; ++i) {
    const int32_t expert = experts[static_cast<size_t>(i) % experts.size()];
    const auto hidden = static_cast<uint32_t>(shape.hidden);
    const auto inter = static_cast<uint32_t>(shape.inter);
    samples.entries.push_back({expert, Parameter::kW1, static_cast<int32_t>(rng.below(2 * inter)),
                               static_cast<int32_t>(rng.below(hidden))});
    samples.entries.push_back({expert, Parameter::kW2, static_cast<int32_t>(rng.below(hidden)),
                               static_cast<int32_t>(rng.below(inter))});
  }
  return samples;
}

bool can_check_all(const Workload& workload) {
  const LayerShape& shape = workload.shape();
  const int64_t rows = std::max<int64_t>(workload.loads().total_rows(), 1);
  return rows <= kMaxFullWork / (int64_t{shape.hidden} * shape.inter);
}

Expected compute_expected(const Workload& workload, const Plan& plan, bool has_backward,
                          const Samples& samples) {
  Expected expected;
  const ReferenceProblem problem = workload.reference_problem(has_backward);
  expected.is_sampled = !samples.tokens.empty();
  if (!expected.is_sampled) {
    expected.all = reference_output(problem, plan);
    return expected;
  }
  const int32_t num_threads = probe_cpu().num_cores;
  expected.samples = samples;
  expected.sampled_tokens = reference_tokens(problem, samples.tokens, num_threads);
  if (has_backward) {
    expected.sampled_gradients = reference_gradients(problem, samples.entries, num_threads);
  }
  return expected;
}

OutputErrors measure_errors(const Workload& workload, const Expected& expected,
                            const LayerOutputs& outputs) {
  return expected.is_sampled ? measure_sampled(workload, expected, outputs)
                             : measure_all(workload, expected, outputs);
}

}  // namespace megaflux::cli
