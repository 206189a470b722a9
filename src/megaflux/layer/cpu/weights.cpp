#include "megaflux/layer/cpu/weights.h"

#include <cstring>

#include "megaflux/base/math.h"
#include "megaflux/layer/cpu/vector_loops.h"
#include "megaflux/moe/work_list.h"

namespace megaflux {
namespace {

const std::byte* offset_by(const void* base, int64_t bytes) {
  return static_cast<const std::byte*>(base) + bytes;
}

bool is_w1(WeightUse use) {
  return use == WeightUse::kFc1 || use == WeightUse::kDgrad1;
}

bool reads_in_place(const CpuLayerConfig& config) {
  return config.shape.dtype == DType::kFp32;
}

// Forms of the weights that are kept: one image a matrix for f32, one pack a use for bf16.
int32_t num_forms(GemmBackend backend) {
  return operand_dtype(backend) == DType::kBf16 ? 4 : 2;
}

// Where an image starts in its memory. oneDNN 2.6 takes a path of its own for a B whose address is
// a multiple of 32, and that path is slow if B's rows are a power of two apart: dX = dZ W1 at H =
// 2048, I = 1408 took 37 ms a tile from there and 23 ms from 16 bytes further, with equal bits (AMD
// EPYC Zen 3, 2026-11-30).
int64_t lead_bytes(GemmBackend backend) {
  return backend == GemmBackend::kOneDnnF32 ? 16 : 0;
}

int32_t num_entries(const CpuLayerConfig& config, int32_t num_owned) {
  if (config.packing == WeightPacking::kPerPart) return 1;
  return num_owned + config.replica_slots;
}

Gemm tile_gemm(const CpuLayerConfig& config, WeightUse use) {
  return {config.gemm, tile_gemm_shapes(config)[static_cast<size_t>(use)]};
}

Gemm weight_gradient_gemm(const CpuLayerConfig& config, int64_t m, int64_t n,
                          bool is_accumulating) {
  return {config.gemm, GemmShape{.m = m,
                                 .n = n,
                                 .k = kTileRows,
                                 .is_a_transposed = true,
                                 .is_accumulating = is_accumulating}};
}

}  // namespace

ExpertWeights owned_expert(const LayerShape& shape, const OwnedWeights& weights,
                           int64_t local_index) {
  const int64_t size = dtype_bytes(shape.dtype);
  ExpertWeights expert{.w1 = offset_by(weights.w1, local_index * shape.w1_elements() * size),
                       .w2 = offset_by(weights.w2, local_index * shape.w2_elements() * size)};
  if (!shape.has_bias) return expert;
  expert.b1 = weights.b1 + local_index * 2 * shape.inter;
  expert.b2 = weights.b2 + local_index * shape.hidden;
  return expert;
}

ReplicaSlots::ReplicaSlots(const CpuLayerConfig& config) : shape_(config.shape) {
  const auto align = [](int64_t bytes) { return round_up(bytes, int64_t{HostBuffer::kAlignment}); };
  w1_bytes_ = shape_.w1_elements() * dtype_bytes(shape_.dtype);
  w2_bytes_ = shape_.w2_elements() * dtype_bytes(shape_.dtype);
  w2_offset_ = align(w1_bytes_);
  b1_offset_ = w2_offset_ + align(w2_bytes_);
  b2_offset_ = b1_offset_ + (shape_.has_bias ? align(int64_t{8} * shape_.inter) : 0);
  slot_bytes_ = b2_offset_ + (shape_.has_bias ? align(int64_t{4} * shape_.hidden) : 0);
  memory_ = HostBuffer(config.replica_slots * slot_bytes_, config.is_memory_poisoned);
  // A slot that was never filled reads as zeros, so that a missing copy shows as a wrong result.
  if (!config.is_memory_poisoned && memory_.bytes() > 0) {
    std::memset(memory_.data(), 0, static_cast<size_t>(memory_.bytes()));
  }
}

ExpertWeights ReplicaSlots::expert_in(int32_t slot) const {
  ExpertWeights expert{.w1 = place(slot, 0), .w2 = place(slot, w2_offset_)};
  if (!shape_.has_bias) return expert;
  expert.b1 = reinterpret_cast<const float*>(place(slot, b1_offset_));
  expert.b2 = reinterpret_cast<const float*>(place(slot, b2_offset_));
  return expert;
}

int64_t ReplicaSlots::copy_w1(int32_t slot, const ExpertWeights& from) {
  std::memcpy(place(slot, 0), from.w1, static_cast<size_t>(w1_bytes_));
  if (!shape_.has_bias) return w1_bytes_;
  const int64_t bias_bytes = int64_t{8} * shape_.inter;
  std::memcpy(place(slot, b1_offset_), from.b1, static_cast<size_t>(bias_bytes));
  return w1_bytes_ + bias_bytes;
}

int64_t ReplicaSlots::copy_w2(int32_t slot, const ExpertWeights& from) {
  std::memcpy(place(slot, w2_offset_), from.w2, static_cast<size_t>(w2_bytes_));
  if (!shape_.has_bias) return w2_bytes_;
  const int64_t bias_bytes = int64_t{4} * shape_.hidden;
  std::memcpy(place(slot, b2_offset_), from.b2, static_cast<size_t>(bias_bytes));
  return w2_bytes_ + bias_bytes;
}

std::array<GemmShape, 4> tile_gemm_shapes(const CpuLayerConfig& config) {
  const auto shape_of = [&](int64_t n, int64_t k, bool is_b_transposed) {
    return GemmShape{.m = config.gemm_rows,
                     .n = n,
                     .k = k,
                     .is_b_transposed = is_b_transposed,
                     .is_b_packed = config.gemm == GemmBackend::kOneDnnBf16};
  };
  const int64_t hidden = config.shape.hidden;
  const int64_t inter = config.shape.inter;
  return {shape_of(2 * inter, hidden, true), shape_of(hidden, inter, true),
          shape_of(inter, hidden, false), shape_of(hidden, 2 * inter, false)};
}

TileGemms::TileGemms(const CpuLayerConfig& config)
    : fc1(tile_gemm(config, WeightUse::kFc1)),
      fc2(tile_gemm(config, WeightUse::kFc2)),
      dgrad2(tile_gemm(config, WeightUse::kDgrad2)),
      dgrad1(tile_gemm(config, WeightUse::kDgrad1)),
      wgrad2(weight_gradient_gemm(config, config.shape.hidden, config.shape.inter, false)),
      wgrad1(weight_gradient_gemm(config, 2 * config.shape.inter, config.shape.hidden, false)),
      wgrad2_added(weight_gradient_gemm(config, config.shape.hidden, config.shape.inter, true)),
      wgrad1_added(
          weight_gradient_gemm(config, 2 * config.shape.inter, config.shape.hidden, true)) {}

Gemm& TileGemms::of(WeightUse use) {
  switch (use) {
    case WeightUse::kFc1:
      return fc1;
    case WeightUse::kFc2:
      return fc2;
    case WeightUse::kDgrad2:
      return dgrad2;
    case WeightUse::kDgrad1:
      break;
  }
  return dgrad1;
}

WeightPacks::WeightPacks(const CpuLayerConfig& config, int32_t num_owned, TileGemms& gemms)
    : shape_(config.shape),
      backend_(config.gemm),
      is_in_place_(reads_in_place(config)),
      num_entries_(num_entries(config, num_owned)),
      gemms_(&gemms) {
  if (is_in_place_) return;
  packs_.resize(static_cast<size_t>(num_forms(backend_)) * num_entries_);
  for (size_t i = 0; i < packs_.size(); ++i) {
    const auto form = static_cast<int32_t>(i / num_entries_);
    const int64_t size =
        num_forms(backend_) == 4
            ? gemms.of(static_cast<WeightUse>(form)).packed_bytes()
            : (form == 0 ? shape_.w1_elements() : shape_.w2_elements()) * int64_t{sizeof(float)};
    packs_[i].memory = HostBuffer(size + lead_bytes(backend_), config.is_memory_poisoned);
  }
}

int64_t WeightPacks::bytes(const CpuLayerConfig& config, int32_t num_owned) {
  if (reads_in_place(config)) return 0;
  // Two forms of W1 and W2 in fp32, or four in bf16: 4 bytes a parameter either way.
  return num_entries(config, num_owned) *
         (4 * (config.shape.w1_elements() + config.shape.w2_elements()) +
          2 * lead_bytes(config.gemm));
}

const void* WeightPacks::operand(WeightUse use, int32_t weight_slot, const PackTag& tag,
                                 const void* raw) {
  if (is_in_place_) return raw;
  const int32_t form = num_forms(backend_) == 4 ? static_cast<int32_t>(use) : (is_w1(use) ? 0 : 1);
  const int32_t entry = num_entries_ == 1 ? 0 : weight_slot;
  Pack& pack = packs_[static_cast<size_t>(form) * num_entries_ + entry];
  if (pack.tag != tag) {
    fill(use, raw, pack);
    pack.tag = tag;
  }
  return pack.memory.data() + lead_bytes(backend_);
}

void WeightPacks::fill(WeightUse use, const void* raw, Pack& pack) {
  if (operand_dtype(backend_) == DType::kBf16) {
    gemms_->of(use).pack_b(raw, pack.memory.data());
    return;
  }
  auto* image = reinterpret_cast<float*>(pack.memory.data() + lead_bytes(backend_));
  widen(static_cast<const Bf16*>(raw), image,
        is_w1(use) ? shape_.w1_elements() : shape_.w2_elements());
}

}  // namespace megaflux
