// What one `megaflux run` computes on: routing, tokens and weights, all drawn from one seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/run/run_options.h"
#include "megaflux/layer/cpu/weights.h"
#include "megaflux/layer/reference/reference.h"
#include "megaflux/moe/layer_shape.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/routing.h"

namespace megaflux::cli {

// Random elements of the layer's dtype.
using Buffer = std::vector<std::byte>;

class Workload {
 public:
  // The step and the owners. Throws kBadInput naming option, value and limit.
  explicit Workload(const RunOptions& options);
  // Tokens, output gradients and weights; before anything else looks at them.
  void draw_data(uint64_t seed);

  const LayerShape& shape() const { return shape_; }
  int32_t num_ranks() const { return static_cast<int32_t>(routing_.size()); }
  // Where the routing comes from, for people.
  const std::string& origin() const { return origin_; }
  const LoadTable& loads() const { return loads_; }
  int64_t num_tokens() const;
  // T_max, at least 1.
  int32_t max_tokens() const;
  // Experts of the rank that owns most.
  int32_t most_owned() const;

  std::span<const RoutingView> routing() const { return routing_views_; }
  // Tokens and output gradients, [P], [T_p, H] each.
  const Buffer& x(int32_t rank) const { return x_[rank]; }
  std::span<const void* const> x_pointers() const { return x_pointers_; }
  std::span<const void* const> dy_pointers() const { return dy_pointers_; }

  std::span<const int32_t> owner_of() const { return owner_of_; }
  int32_t owned_experts(int32_t rank) const { return owned_experts_[rank]; }
  int32_t local_index(int32_t expert) const { return local_index_[expert]; }
  OwnedWeights weights(int32_t rank) const {
    return {.w1 = w1_[rank].data(), .w2 = w2_[rank].data()};
  }

  // The same inputs as the reference takes them; views into this workload.
  ReferenceProblem reference_problem(bool has_backward) const;

 private:
  void take_routing(const RunOptions& options);
  void draw_tokens(uint64_t seed);
  void take_owners(const RunOptions& options);
  void draw_weights(uint64_t seed);

  LayerShape shape_;
  std::string origin_;
  std::vector<Routing> routing_;
  std::vector<RoutingView> routing_views_;
  LoadTable loads_;
  std::vector<int32_t> owner_of_;       // [E]
  std::vector<int32_t> local_index_;    // [E]
  std::vector<int32_t> owned_experts_;  // [P]
  std::vector<Buffer> x_, dy_;          // [P]
  std::vector<const void*> x_pointers_, dy_pointers_;
  std::vector<Buffer> w1_, w2_;           // [P], [E_local, 2I, H] and [E_local, H, I]
  std::vector<ExpertView> expert_views_;  // [E]
};

}  // namespace megaflux::cli
