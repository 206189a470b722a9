#include "parity/case_table.h"

#include <functional>
#include <stdexcept>

namespace megaflux {
namespace {

LayerShape shape_of(int32_t experts, int32_t topk, int32_t hidden, int32_t inter,
                    DType dtype = DType::kBf16) {
  return {.num_experts = experts, .topk = topk, .hidden = hidden, .inter = inter, .dtype = dtype};
}

LayerShape with_bias(LayerShape shape) {
  shape.has_bias = true;
  return shape;
}

LayerShape clamped(LayerShape shape) {
  // A low limit, so that random inputs reach it on both sides.
  shape.activation = {Activation::Kind::kClampedSwiGlu, 0.4f, 1.702f};
  return shape;
}

LayerShape up_first(LayerShape shape) {
  shape.gate_order = GateOrder::kUpGate;
  return shape;
}

constexpr DType kFp32 = DType::kFp32;

std::vector<LayerCase> make_table() {
  return {
      {.name = "smallest", .shape = shape_of(1, 1, 1, 1, kFp32), .tokens = {1}, .replica_slots = 0},
      {.name = "smallest_bf16", .shape = shape_of(1, 1, 1, 1), .tokens = {1}, .replica_slots = 0},
      {.name = "one_rank", .shape = shape_of(4, 2, 32, 24), .tokens = {50}, .replica_slots = 1},
      {.name = "two_ranks_fp32", .shape = shape_of(6, 2, 40, 24, kFp32), .tokens = {60, 45}},
      {.name = "two_ranks_bf16", .shape = shape_of(6, 2, 64, 48), .tokens = {130, 64}},
      {.name = "no_replicas",
       .shape = shape_of(8, 3, 48, 32),
       .tokens = {40, 40, 40, 40},
       .plan = PlanChoice::kFixed,
       .replica_slots = 0},
      {.name = "one_slot",
       .shape = shape_of(8, 3, 48, 32),
       .tokens = {40, 40, 40, 40},
       .route = RouteKind::kSkewed,
       .plan = PlanChoice::kSpread,
       .replica_slots = 1,
       .block_rows = 17},
      {.name = "eight_ranks",
       .shape = shape_of(16, 4, 64, 40),
       .tokens = {64, 33, 64, 1, 64, 90, 0, 7},
       .route = RouteKind::kSkewed,
       .block_rows = 17},
      {.name = "nine_ranks_seven_experts",
       .shape = shape_of(7, 2, 24, 16, kFp32),
       .tokens = {9, 8, 7, 6, 5, 4, 3, 2, 1},
       .block_rows = 1},
      {.name = "uneven_owners",
       .shape = shape_of(10, 2, 40, 24),
       .tokens = {50, 20, 70, 10},
       .route = RouteKind::kSkewed,
       .block_rows = 17,
       .is_owner_scattered = true},
      {.name = "odd_dims_fp32",
       .shape = shape_of(5, 2, 7, 5, kFp32),
       .tokens = {30, 31, 32},
       .block_rows = 1},
      {.name = "odd_dims_bf16",
       .shape = shape_of(5, 2, 41, 7),
       .tokens = {30, 31, 32},
       .block_rows = 1},
      {.name = "gpt_oss_like",
       .shape = clamped(with_bias(up_first(shape_of(6, 4, 72, 72)))),
       .tokens = {64, 80},
       .route = RouteKind::kSkewed,
       .block_rows = 17},
      {.name = "gpt_oss_like_fp32",
       .shape = clamped(with_bias(shape_of(6, 4, 72, 72, kFp32))),
       .tokens = {64, 80},
       .block_rows = 17},
      {.name = "up_gate_fp32",
       .shape = up_first(shape_of(4, 2, 24, 16, kFp32)),
       .tokens = {40, 9},
       .block_rows = 17},
      {.name = "bias_swiglu",
       .shape = with_bias(shape_of(4, 2, 33, 17)),
       .tokens = {40, 9, 20},
       .block_rows = 1},
      {.name = "one_hot",
       .shape = shape_of(8, 2, 48, 32),
       .tokens = {300, 300, 300, 300},
       .route = RouteKind::kOneHot,
       .plan = PlanChoice::kSpread},
      {.name = "all_to_rank_0",
       .shape = shape_of(8, 2, 32, 16),
       .tokens = {2, 4, 4, 4},
       .route = RouteKind::kAllToRank0,
       .plan = PlanChoice::kSpread,
       .block_rows = 1},
      {.name = "duplicates",
       .shape = shape_of(4, 4, 32, 24),
       .tokens = {50, 20},
       .route = RouteKind::kDuplicates,
       .block_rows = 17,
       .id_type = IdType::kInt16},
      {.name = "holes",
       .shape = shape_of(8, 8, 32, 24, kFp32),
       .tokens = {50, 20, 33},
       .route = RouteKind::kHoles,
       .block_rows = 17,
       .id_type = IdType::kInt64},
      {.name = "holes_bf16",
       .shape = shape_of(8, 8, 64, 24),
       .tokens = {50, 20, 33},
       .route = RouteKind::kHoles,
       .block_rows = 300},
      {.name = "nothing_routed",
       .shape = shape_of(4, 2, 32, 24),
       .tokens = {5, 3},
       .route = RouteKind::kNone},
      {.name = "no_tokens_at_all", .shape = shape_of(4, 2, 32, 24), .tokens = {0, 0, 0}},
      {.name = "one_token_of_four_ranks", .shape = shape_of(8, 2, 32, 24), .tokens = {0, 1, 0, 0}},
      {.name = "valid_rows_only_on_rank_0",
       .shape = shape_of(8, 4, 32, 24),
       .tokens = {100, 40, 40, 40},
       .block_rows = 17,
       .invalid_tokens = 40},
      {.name = "large_blocks",
       .shape = shape_of(4, 2, 40, 24),
       .tokens = {400, 350},
       .route = RouteKind::kSkewed,
       .plan = PlanChoice::kSpread,
       .block_rows = 300},
      {.name = "small_pool",
       .shape = shape_of(6, 3, 40, 24),
       .tokens = {300, 200, 100},
       .route = RouteKind::kSkewed,
       .block_rows = 17,
       .pool_tiles = 2,
       .z = ZChoice::kPartly},
      {.name = "recompute",
       .shape = shape_of(6, 3, 40, 24),
       .tokens = {100, 200, 100},
       .route = RouteKind::kSkewed,
       .block_rows = 128,
       .z = ZChoice::kRecomputed},
      {.name = "wide_topk", .shape = shape_of(40, 33, 24, 8), .tokens = {20, 10}, .block_rows = 1},
  };
}

std::string clamp_name(int64_t value, int64_t limit) {
  return value >= limit ? std::to_string(limit) + "+" : std::to_string(value);
}

// An axis: the values it must have, and the value of a case.
struct Axis {
  std::string name;
  std::vector<std::string> values;
  std::function<std::vector<std::string>(const LayerCase&)> of;
};

std::vector<Axis> axes() {
  const auto list = [](std::string value) { return std::vector<std::string>{std::move(value)}; };
  return {
      {"P",
       {"1", "2", "3", "4", "8+"},
       [=](const LayerCase& c) { return list(clamp_name(c.num_ranks(), 8)); }},
      {"E",
       {"1", "4", "8+"},
       [=](const LayerCase& c) { return list(clamp_name(c.shape.num_experts, 8)); }},
      {"K",
       {"1", "2", "3", "4", "8+"},
       [=](const LayerCase& c) { return list(clamp_name(c.shape.topk, 8)); }},
      {"H",
       {"1", "7", "8+"},
       [=](const LayerCase& c) { return list(clamp_name(c.shape.hidden, 8)); }},
      {"I",
       {"1", "5", "7", "8+"},
       [=](const LayerCase& c) { return list(clamp_name(c.shape.inter, 8)); }},
      {"T of a rank",
       {"0", "1", "2+"},
       [](const LayerCase& c) {
         std::vector<std::string> values;
         for (const int32_t t : c.tokens) values.push_back(clamp_name(t, 2));
         return values;
       }},
      {"s",
       {"0", "1", "2"},
       [=](const LayerCase& c) { return list(std::to_string(c.replica_slots)); }},
      {"block_rows",
       {"1", "17", "128", "300"},
       [=](const LayerCase& c) { return list(std::to_string(c.block_rows)); }},
      {"dtype",
       {"bf16", "fp32"},
       [=](const LayerCase& c) { return list(std::string(dtype_name(c.shape.dtype))); }},
      {"gate order",
       {"gate_up", "up_gate"},
       [=](const LayerCase& c) {
         return list(c.shape.gate_order == GateOrder::kGateUp ? "gate_up" : "up_gate");
       }},
      {"activation",
       {"swiglu", "clamped"},
       [=](const LayerCase& c) {
         const bool is_plain = c.shape.activation.kind == Activation::Kind::kSwiGlu;
         return list(is_plain ? "swiglu" : "clamped");
       }},
      {"bias",
       {"no", "yes"},
       [=](const LayerCase& c) { return list(c.shape.has_bias ? "yes" : "no"); }},
      {"route",
       {"0", "1", "2", "3", "4", "5", "6"},
       [=](const LayerCase& c) { return list(std::to_string(static_cast<int>(c.route))); }},
      {"plan",
       {"0", "1", "2"},
       [=](const LayerCase& c) { return list(std::to_string(static_cast<int>(c.plan))); }},
      {"pool",
       {"default", "ring"},
       [=](const LayerCase& c) { return list(c.pool_tiles == 0 ? "default" : "ring"); }},
      {"z",
       {"0", "1", "2"},
       [=](const LayerCase& c) { return list(std::to_string(static_cast<int>(c.z))); }},
      {"id type",
       {"0", "1", "2"},
       [=](const LayerCase& c) { return list(std::to_string(static_cast<int>(c.id_type))); }},
      {"num_valid_tokens",
       {"all", "fewer"},
       [=](const LayerCase& c) { return list(c.invalid_tokens == 0 ? "all" : "fewer"); }},
      {"owners",
       {"contiguous", "scattered"},
       [=](const LayerCase& c) { return list(c.is_owner_scattered ? "scattered" : "contiguous"); }},
  };
}

}  // namespace

std::span<const LayerCase> case_table() {
  static const std::vector<LayerCase> table = make_table();
  return table;
}

const LayerCase& case_named(const std::string& name) {
  for (const LayerCase& layer_case : case_table()) {
    if (layer_case.name == name) return layer_case;
  }
  throw std::out_of_range("no case named " + name);
}

std::map<std::string, std::map<std::string, int32_t>> axis_coverage() {
  std::map<std::string, std::map<std::string, int32_t>> coverage;
  for (const Axis& axis : axes()) {
    auto& counts = coverage[axis.name];
    for (const std::string& value : axis.values) counts[value] = 0;
    for (const LayerCase& layer_case : case_table()) {
      for (const std::string& value : axis.of(layer_case)) ++counts[value];
    }
  }
  return coverage;
}

}  // namespace megaflux
