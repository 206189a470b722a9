// LayerShape: the sizes and conventions of one MoE layer, the same on every rank.
//
// Example: DeepSeek-V2-Lite has E = 64 experts, K = 6 per token, H = 2048, I = 1408. One expert
// then holds W1 [2816, 2048] and W2 [2048, 1408] = 3 H I = 8,650,752 parameters, 17.3 MB in bf16.
#pragma once

#include <cstdint>
#include <string_view>

namespace megaflux {

// Element type of activations and weights; accumulation is fp32 in every executor.
enum class DType : uint8_t { kBf16, kFp32 };

constexpr int64_t dtype_bytes(DType dtype) {
  return dtype == DType::kBf16 ? 2 : 4;
}
constexpr std::string_view dtype_name(DType dtype) {
  return dtype == DType::kBf16 ? "bf16" : "fp32";
}

// Which half of W1's 2I rows is the gate: HF, TE and vLLM use [gate; up], FlashInfer and TRT-LLM
// [up; gate].
enum class GateOrder : uint8_t { kGateUp, kUpGate };

// A = SiLU(G) * U, or gpt-oss' clamped form: g = min(G, limit), u = clamp(U, -limit, limit),
// A = (u + 1) * g * sigmoid(alpha * g).
struct Activation {
  enum class Kind : uint8_t { kSwiGlu, kClampedSwiGlu };
  Kind kind = Kind::kSwiGlu;
  float limit = 7.0f;    // kClampedSwiGlu only
  float alpha = 1.702f;  // kClampedSwiGlu only
};

struct LayerShape {
  int32_t num_experts = 0;  // E, 1 ... 4096
  int32_t topk = 0;         // K, 1 ... 64; may exceed E, an id may stand twice in a token's row
  int32_t hidden = 0;       // H, elements of a token
  int32_t inter = 0;        // I, channels of an expert
  DType dtype = DType::kBf16;
  GateOrder gate_order = GateOrder::kGateUp;
  Activation activation = {};
  bool has_bias = false;  // b1 [E, 2I] and b2 [E, H], fp32

  // Parameters of W1 [2I, H] and W2 [H, I] of one expert, without biases.
  int64_t w1_elements() const { return int64_t{2} * inter * hidden; }
  int64_t w2_elements() const { return int64_t{1} * hidden * inter; }
  // Bytes of one expert's weights and biases, as a replica moves them.
  int64_t expert_bytes() const {
    const int64_t bias_bytes = has_bias ? 4 * (int64_t{2} * inter + hidden) : 0;
    return (w1_elements() + w2_elements()) * dtype_bytes(dtype) + bias_bytes;
  }
  // Bytes of one expert's fp32 gradient, as a replica's reduction moves them.
  int64_t expert_gradient_bytes() const {
    const int64_t bias_elements = has_bias ? int64_t{2} * inter + hidden : 0;
    return 4 * (w1_elements() + w2_elements() + bias_elements);
  }
  // Multiply-adds times two of one row through FC1 and FC2.
  int64_t forward_flops_per_row() const { return 2 * (w1_elements() + w2_elements()); }
};

// Throws kBadInput naming the field, its value and its limit.
void check_shape(const LayerShape& shape);

}  // namespace megaflux
