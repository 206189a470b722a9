// ForwardContext: what a forward leaves for its backward. Consumed by exactly one backward.
//
// It keeps the plan and the loads, ids and routing weights as used (tokens beyond num_valid_tokens
// with ids -1), a borrowed pointer to each rank's x, and Z as far as its capacity reaches. Route
// lists are not kept: they are a pure function of the ids and cheaper to build than to store.
//
// Example: P = 2, T = {3, 0}, K = 2: ranks[0].topk_ids has 6 entries, ranks[1].topk_ids none. Rank
// 0 computed 300 rows of one expert under the plan, so its list has 3 tiles (128 + 128 + 44 rows)
// and Z has 384 rows, of which the last 84 are padding. With a Z capacity of 256 rows, z_rows = 256
// and the third tile is recomputed in backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"
#include "megaflux/moe/routing.h"

namespace megaflux {

// What one rank keeps.
struct SavedRank {
  int32_t num_tokens = 0;           // T
  int32_t topk = 0;                 // K
  std::vector<int32_t> topk_ids;    // [T, K], -1 = not routed or not valid
  std::vector<float> topk_weights;  // [T, K]
  const void* x = nullptr;          // [T, H], the caller's; must stay as it is until the backward
  std::unique_ptr<std::byte[]> z;   // [z_capacity_rows, 2I] of the layer's dtype, tile by tile
  int64_t z_capacity_bytes = 0;     // size of z
  int64_t z_rows = 0;               // rows saved, a multiple of 128; 0 = recompute all

  RoutingView routing() const;
  // Copies ids and weights, ids of tokens that are not valid become -1; reuses the memory.
  void save_routing(const RoutingView& view);
  // Makes room for the routing of `max_tokens` tokens, so that save_routing does not allocate.
  void reserve_routing(int32_t max_tokens, int32_t max_topk);
  // Makes room for `bytes` of Z; the content is undefined.
  void reserve_z(int64_t bytes);
};

struct ForwardState {
  Plan plan;
  LoadTable loads;
  int32_t layer = 0;
  uint32_t epoch = 0;            // of the forward launch
  uint64_t weight_version = 0;   // of the layer's weights
  std::vector<SavedRank> ranks;  // [P]
};

// A move-only handle. Its memory is its own, or borrowed from a ForwardArena and given back at the
// end.
class ForwardContext {
 public:
  ForwardContext() = default;
  // With memory of its own.
  static ForwardContext owning();
  ForwardContext(ForwardContext&& other) noexcept { swap(other); }
  ForwardContext& operator=(ForwardContext&& other) noexcept;
  ~ForwardContext() { release(); }

  bool empty() const { return core_ == nullptr; }
  bool is_consumed() const { return is_consumed_; }

  // Reads without consuming, for a replay. Throws kBadInput if the context is empty or consumed, or
  // if its arena has freed it.
  const ForwardState& state() const;
  ForwardState& state();
  // The one use by a backward; errors as state(), and a second call is one.
  ForwardState& consume();
  // Gives the memory back; the handle is empty afterwards.
  void release();

 private:
  friend class ForwardArena;
  struct Core;
  void swap(ForwardContext& other) noexcept;

  std::shared_ptr<Core> core_;
  size_t entry_ = 0;
  uint64_t generation_ = 0;
  bool is_consumed_ = false;
};

// Recycles the memory of contexts, so that a step allocates nothing after the first.
class ForwardArena {
 public:
  // At most `max_contexts` contexts at a time.
  ForwardArena(std::string name, int32_t max_contexts);

  // Throws kBadInput naming the arena and its limit if all contexts are in use.
  ForwardContext acquire();
  // Frees every context still outstanding; using one afterwards is an error.
  void release_all();
  // True if `context` came from this arena.
  bool owns(const ForwardContext& context) const { return context.core_ == core_; }
  int32_t num_in_use() const;

 private:
  std::shared_ptr<ForwardContext::Core> core_;
};

}  // namespace megaflux
