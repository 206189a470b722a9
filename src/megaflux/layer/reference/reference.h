// The reference: what a layer computes, in plain loops with fp64 sums and no intermediate rounding.
//
// Two forms. The whole problem walks the WorkLists of a plan over all ranks, so it also proves that
// the plan gives each row to exactly one instance. The sampled form computes chosen tokens and
// chosen gradient entries, so that layers too large for plain loops are checked in seconds.
//
// Example, H = 2, I = 1, one expert, no bias, K = 1, p = 0.5, x = (1, 2), W1 = {{1, 0}, {0, 1}},
// W2 = {{1}, {3}}: gate 1, up 2, A = SiLU(1) * 2 = 1.462117, O = (1.462117, 4.386351) and
// y = (0.731059, 2.193176).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/layer/reference/expert_rows.h"
#include "megaflux/moe/layer_shape.h"
#include "megaflux/moe/plan.h"
#include "megaflux/moe/routing.h"

namespace megaflux {

// Inputs of one step over P ranks; non-owning.
struct ReferenceProblem {
  LayerShape shape;
  std::span<const RoutingView> routing;  // [P]
  std::span<const void* const> x;        // [P], each [T_p, H] of the layer's dtype; null if T_p = 0
  std::span<const void* const> dy;       // [P], as x; empty where only the forward is asked for
  std::span<const ExpertView> experts;   // [E]
};

struct ExpertGradient {
  std::vector<double> w1;  // [2I, H]
  std::vector<double> w2;  // [H, I]
  std::vector<double> b1;  // [2I], empty without biases
  std::vector<double> b2;  // [H], empty without biases
};

struct ReferenceOutput {
  std::vector<std::vector<double>> y;   // [P], each [T_p, H]
  std::vector<std::vector<double>> dx;  // [P], each [T_p, H]; empty without dy
  std::vector<std::vector<double>>
      dp;  // [P], each [T_p, K], 0 where the id is -1; empty without dy
  std::vector<ExpertGradient> gradients;  // [E]; empty without dy
};

// The whole problem under `plan`. Throws kBadInput if an input does not fit the shape and kInternal
// if the plan computes a row twice or never.
ReferenceOutput reference_output(const ReferenceProblem& problem, const Plan& plan);

struct TokenRef {
  int32_t rank = 0;
  int32_t token = 0;
};

// Outputs of chosen tokens, in the order given.
struct SampledTokens {
  std::vector<double> y;   // [n, H]
  std::vector<double> dx;  // [n, H]; empty without dy
  std::vector<double> dp;  // [n, K]; empty without dy
};
// Uses `num_threads` threads, one expert at a time on each.
SampledTokens reference_tokens(const ReferenceProblem& problem, std::span<const TokenRef> tokens,
                               int32_t num_threads = 1);

enum class Parameter : uint8_t { kW1, kW2, kB1, kB2 };

// One entry of a weight gradient: row and column of the parameter; biases have column 0.
struct GradientEntry {
  int32_t expert = 0;
  Parameter parameter = Parameter::kW1;
  int32_t row = 0;
  int32_t col = 0;
};
// Chosen entries of the weight gradients, in the order given. The problem needs dy.
std::vector<double> reference_gradients(const ReferenceProblem& problem,
                                        std::span<const GradientEntry> entries,
                                        int32_t num_threads = 1);

}  // namespace megaflux
