// Sizes of MoE layers of well-known models, as their published configurations give them.
//
// Example: "qwen3-30b" is H 2048, I 768, E 128, K 8; "7168,2048,8" is a layer with any E.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "megaflux/moe/layer_shape.h"

namespace megaflux::simulate {

struct ModelShape {
  std::string name;
  int32_t hidden = 0;
  int32_t inter = 0;
  int32_t topk = 0;
  int32_t num_experts = 0;  // 0 = not stated
};

std::span<const ModelShape> model_shapes();

// A name of model_shapes(), or "H,I,K". Throws kBadInput naming `argument`, the text and what is
// known.
ModelShape parse_model(std::string_view argument, std::string_view text);

// The layer of a trace with `num_experts` and `topk` (0 = not stated: the model's) and the model's
// hidden and inter sizes.
LayerShape shape_for(const ModelShape& model, int32_t num_experts, int32_t topk);

}  // namespace megaflux::simulate
