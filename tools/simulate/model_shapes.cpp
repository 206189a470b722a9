#include "simulate/model_shapes.h"

#include <array>
#include <charconv>
#include <vector>

#include "megaflux/base/check.h"

namespace megaflux::simulate {
namespace {

constexpr int32_t kMaxSize = 65536;
constexpr int32_t kMaxTopk = 64;

// hidden_size, moe_intermediate_size, num_experts_per_tok and n_routed_experts of config.json; GLM
// as the models of 355B have it.
const std::array<ModelShape, 6>& known_models() {
  static const std::array<ModelShape, 6> models = {{
      {.name = "qwen3-30b", .hidden = 2048, .inter = 768, .topk = 8, .num_experts = 128},
      {.name = "qwen3-235b", .hidden = 4096, .inter = 1536, .topk = 8, .num_experts = 128},
      {.name = "dsv3", .hidden = 7168, .inter = 2048, .topk = 8, .num_experts = 256},
      {.name = "glm4.5", .hidden = 5120, .inter = 1536, .topk = 8, .num_experts = 160},
      {.name = "glm4.7", .hidden = 5120, .inter = 1536, .topk = 8, .num_experts = 160},
      {.name = "olmoe", .hidden = 2048, .inter = 1024, .topk = 8, .num_experts = 64},
  }};
  return models;
}

std::string known_names() {
  std::string names;
  for (const ModelShape& model : known_models()) names += model.name + "|";
  return names + "H,I,K";
}

// "7168,2048,8" -> three positive integers; empty if it is anything else.
std::vector<int32_t> parse_sizes(std::string_view text) {
  std::vector<int32_t> sizes;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const char* last = text.data() + end;
    int32_t value = 0;
    const auto [stop, error] = std::from_chars(text.data() + begin, last, value);
    if (error != std::errc{} || stop != last || sizes.size() == 3) return {};
    sizes.push_back(value);
    begin = end + 1;
  }
  return sizes.size() == 3 ? sizes : std::vector<int32_t>{};
}

}  // namespace

std::span<const ModelShape> model_shapes() {
  return known_models();
}

ModelShape parse_model(std::string_view argument, std::string_view text) {
  for (const ModelShape& model : known_models()) {
    if (model.name == text) return model;
  }
  const std::vector<int32_t> sizes = parse_sizes(text);
  MF_CHECK(!sizes.empty(), argument, ": '", text, "' is unknown, one of ", known_names(),
           " expected");
  const auto check = [&](const char* size, int32_t value, int32_t most) {
    MF_CHECK(value >= 1 && value <= most, argument, ": ", text, ": ", size, ": ", value,
             " is outside [1, ", most, "]");
  };
  check("H", sizes[0], kMaxSize);
  check("I", sizes[1], kMaxSize);
  check("K", sizes[2], kMaxTopk);
  return {.name = std::string(text), .hidden = sizes[0], .inter = sizes[1], .topk = sizes[2]};
}

LayerShape shape_for(const ModelShape& model, int32_t num_experts, int32_t topk) {
  LayerShape shape{.num_experts = num_experts,
                   .topk = topk > 0 ? topk : model.topk,
                   .hidden = model.hidden,
                   .inter = model.inter};
  check_shape(shape);
  return shape;
}

}  // namespace megaflux::simulate
