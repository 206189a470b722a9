// Random inputs of one step for a case: routing, tokens, gradients and weights. Random data, never
// zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/layer/cpu/weights.h"
#include "megaflux/layer/reference/reference.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"
#include "megaflux/moe/routing.h"
#include "parity/case_table.h"

namespace megaflux {

// Elements of a dtype as raw memory.
struct TypedVector {
  DType dtype = DType::kFp32;
  std::vector<std::byte> bytes;

  TypedVector() = default;
  TypedVector(DType type, int64_t count) : dtype(type), bytes(count * dtype_bytes(type)) {}
  int64_t size() const { return static_cast<int64_t>(bytes.size()) / dtype_bytes(dtype); }
  double at(int64_t i) const { return element_at(bytes.data(), dtype, i); }
  void set(int64_t i, float value);
  // Every byte 0xff, a NaN: what is not written shows.
  void poison();
};

struct StepData {
  StepData(const LayerCase& layer_case, uint64_t seed);

  LayerCase layer_case;
  std::vector<int32_t> owner_of;     // [E]
  std::vector<RoutingView> routing;  // [P]
  std::vector<TypedVector> x, dy;    // [P] of [T, H]
  // [P] weights of each rank's experts, in ascending id.
  std::vector<TypedVector> w1, w2;
  std::vector<std::vector<float>> b1, b2;

  const LayerShape& shape() const { return layer_case.shape; }
  int32_t num_ranks() const { return layer_case.num_ranks(); }
  OwnedWeights owned(int32_t rank) const;
  LoadTable loads() const;
  ReferenceProblem problem() const;
  // Draws the weights anew, at the same addresses.
  void redraw_weights(uint64_t seed);
  // The routing's storage, for tests that change it.
  std::vector<std::vector<float>> topk_weights;  // [P] of [T, K]

 private:
  void draw_routing(uint64_t seed);
  void refresh_views();
  std::vector<std::vector<int64_t>> ids_;         // [P] of [T, K]
  std::vector<std::vector<std::byte>> id_bytes_;  // [P], of the case's id type
  std::vector<int32_t> valid_tokens_;             // [P]
  std::vector<const void*> x_pointers_, dy_pointers_;
  std::vector<ExpertView> experts_;
};

// Plans for the loads of `data`, always legal.
Plan fixed_plan(const StepData& data, int32_t block_rows);
// Random replicas in random numbers; equal seeds give equal plans.
Plan random_plan(const StepData& data, int32_t block_rows, uint64_t seed);
// Every slot filled with the hottest experts, blocks split evenly.
Plan spread_plan(const StepData& data, int32_t block_rows);
// The plan the case asks for.
Plan plan_of(const StepData& data, uint64_t seed);

}  // namespace megaflux
