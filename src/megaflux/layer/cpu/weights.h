// Weights as a rank holds them: owned experts in the caller's memory, replicas in slots, and both
// in the form that the GEMMs read.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/layer/cpu/gemm.h"
#include "megaflux/layer/cpu/host_buffer.h"
#include "megaflux/layer/cpu/layer_config.h"
#include "megaflux/moe/layer_shape.h"

namespace megaflux {

// All experts a rank owns, in ascending expert id; non-owning.
struct OwnedWeights {
  const void* w1 = nullptr;   // [E_local, 2I, H] of the layer's dtype
  const void* w2 = nullptr;   // [E_local, H, I]
  const float* b1 = nullptr;  // [E_local, 2I], null without biases
  const float* b2 = nullptr;  // [E_local, H], null without biases
};

// One expert; non-owning.
struct ExpertWeights {
  const void* w1 = nullptr;   // [2I, H]
  const void* w2 = nullptr;   // [H, I]
  const float* b1 = nullptr;  // [2I], null without biases
  const float* b2 = nullptr;  // [H], null without biases
};
ExpertWeights owned_expert(const LayerShape& shape, const OwnedWeights& weights,
                           int64_t local_index);

// The replica slots of one rank.
class ReplicaSlots {
 public:
  explicit ReplicaSlots(const CpuLayerConfig& config);

  ExpertWeights expert_in(int32_t slot) const;
  // Copy one matrix and its bias into a slot; return the bytes.
  int64_t copy_w1(int32_t slot, const ExpertWeights& from);
  int64_t copy_w2(int32_t slot, const ExpertWeights& from);

 private:
  std::byte* place(int32_t slot, int64_t offset) const {
    return memory_.data() + slot * slot_bytes_ + offset;
  }
  LayerShape shape_;
  int64_t w1_bytes_ = 0;
  int64_t w2_bytes_ = 0;
  int64_t w2_offset_ = 0;
  int64_t b1_offset_ = 0;
  int64_t b2_offset_ = 0;
  int64_t slot_bytes_ = 0;
  HostBuffer memory_;
};

// The GEMMs that read weights as their B.
enum class WeightUse : uint8_t { kFc1, kFc2, kDgrad2, kDgrad1 };

// Shapes of the four, in the order of WeightUse; m is config.gemm_rows.
std::array<GemmShape, 4> tile_gemm_shapes(const CpuLayerConfig& config);

// GEMMs of one rank. Tiles are always 128 rows, and padding up to config.gemm_rows.
struct TileGemms {
  explicit TileGemms(const CpuLayerConfig& config);
  Gemm& of(WeightUse use);

  Gemm fc1;           // Z [128, 2I] = X W1^T
  Gemm fc2;           // O [128, H] = A W2^T
  Gemm dgrad2;        // dA [128, I] = D W2
  Gemm dgrad1;        // dX [128, H] = dZ W1
  Gemm wgrad2;        // dW2 [H, I] = D^T (p A)
  Gemm wgrad1;        // dW1 [2I, H] = dZ^T X
  Gemm wgrad2_added;  // dW2 += D^T (p A)
  Gemm wgrad1_added;  // dW1 += dZ^T X
};

// Which weights a pack was made from; equal tags mean equal content.
struct PackTag {
  int32_t layer = -1;
  int32_t expert = -1;
  uint64_t version = 0;  // weight version of the layer
  uint64_t arrival = 0;  // copies into the slot so far; 0 for owned experts
  friend bool operator==(const PackTag&, const PackTag&) = default;
};

// Weights in the form the GEMMs read, made at first use and kept while the tag stays the same. With
// an f32 backend both directions read one widened image, and fp32 weights are read in place.
class WeightPacks {
 public:
  WeightPacks(const CpuLayerConfig& config, int32_t num_owned, TileGemms& gemms);

  // `weight_slot` as in Part; `raw` is W1 for kFc1 and kDgrad1, else W2.
  const void* operand(WeightUse use, int32_t weight_slot, const PackTag& tag, const void* raw);

  // Bytes of a rank with `num_owned` experts, without what a bf16 library adds as padding.
  static int64_t bytes(const CpuLayerConfig& config, int32_t num_owned);

 private:
  struct Pack {
    HostBuffer memory;
    PackTag tag;
  };
  void fill(WeightUse use, const void* raw, Pack& pack);

  LayerShape shape_;
  GemmBackend backend_;
  bool is_in_place_;  // the GEMMs read the weights as they are
  int32_t num_entries_;
  TileGemms* gemms_;
  std::vector<Pack> packs_;  // [uses that have a form of their own, entries]
};

}  // namespace megaflux
