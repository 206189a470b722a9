// What the reference says about a workload, whole or sampled, and how far outputs are from it.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/run/execution.h"
#include "cli/run/workload.h"
#include "megaflux/layer/reference/reference.h"

namespace megaflux::cli {

// Tokens and gradient entries to compare where the whole layer would take too long.
struct Samples {
  std::vector<TokenRef> tokens;        // random; together about 512 rows
  std::vector<GradientEntry> entries;  // 32 of W1 and 32 of W2, of the experts with most rows
};
Samples draw_samples(const Workload& workload, uint64_t seed);

// True if the reference computes every token and gradient of this workload in seconds.
bool can_check_all(const Workload& workload);

struct Expected {
  bool is_sampled = false;
  Samples samples;  // if sampled
  SampledTokens sampled_tokens;
  std::vector<double> sampled_gradients;
  ReferenceOutput all;  // if not
};
// `plan` is walked by the whole reference, which thereby checks that it computes each row once;
// `samples` empty = whole.
Expected compute_expected(const Workload& workload, const Plan& plan, bool has_backward,
                          const Samples& samples);

// Largest relative error of a kind of output: over tokens for y, dx and dp, over experts for
// gradients (over entries if sampled), each as the norm of the difference over the norm of the
// reference. NaN counts as infinite.
struct OutputErrors {
  double y = 0;
  double dx = 0;
  double dp = 0;
  double dw = 0;
};
OutputErrors measure_errors(const Workload& workload, const Expected& expected,
                            const LayerOutputs& outputs);

}  // namespace megaflux::cli
