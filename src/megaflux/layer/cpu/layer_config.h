// CpuLayerConfig: the numbers of a CPU layer, chosen once at creation, and what they cost in
// memory.
//
// Example: E = 64 on P = 8 ranks, K = 6, T_max = 1024, s = 2: C = ceil(1.25 * 1024 * 6) + 128 * (8
// + 2) = 8960 rows = 70 tiles. A rank whose padded rows need 100 tiles uses its pool as a ring, in
// two rounds.
#pragma once

#include <cstdint>
#include <vector>

#include "megaflux/base/requirements.h"
#include "megaflux/layer/cpu/gemm.h"
#include "megaflux/moe/layer_shape.h"

namespace megaflux {

// How many experts' weights a rank keeps in the form its GEMMs read.
enum class WeightPacking : uint8_t {
  // All owned experts and all slots, of one layer at a time: packed when another layer, weight
  // version or copy in the slot is used than the last time. One layer: once per weight version.
  kPerVersion,
  kPerPart,  // one expert at a time, packed when a part begins: less memory, more copying
};

// What a backward does with the gradients of the weights.
enum class GradientMode : uint8_t {
  kNewFp32,    // overwrite fp32 buffers; experts without rows get zeros
  kNewBf16,    // overwrite bf16 buffers of W1 and W2, rounded once; biases stay fp32
  kAddToMain,  // main_grad (fp32) += acc; experts without rows stay untouched
};

struct CpuLayerConfig {
  LayerShape shape;
  int32_t num_ranks = 1;          // P
  int32_t replica_slots = 0;      // s, slots a rank
  int32_t max_tokens = 0;         // T_max, tokens a rank
  int64_t pool_rows = 0;          // C, rows a rank, cut to whole tiles; 0 = default_pool_rows
  int32_t fc2_lag_tiles = 1;      // FC2 runs this many tiles behind FC1; less than C / 128
  std::vector<int32_t> owner_of;  // [E]; empty = contiguous
  GemmBackend gemm = GemmBackend::kAuto;
  WeightPacking packing = WeightPacking::kPerVersion;
  int32_t gemm_rows = 0;  // rows of a tile's GEMMs, padding included; 0 = row_independent_rows
  bool is_memory_poisoned = false;  // tests: fresh memory holds NaNs

  int32_t pool_tiles() const { return static_cast<int32_t>(pool_rows / 128); }
};

// ceil(1.25 T_max K) + 128 (E_local + s), for the rank that owns most experts, in whole tiles.
int64_t default_pool_rows(const CpuLayerConfig& config);

// The config with every default filled in. Throws kBadInput naming the field, its value and its
// limit.
CpuLayerConfig resolve_config(CpuLayerConfig config);

// fp32 gradients of a rank with `num_owned` experts that are not built in the output itself.
int32_t num_accumulators(const CpuLayerConfig& config, int32_t num_owned, GradientMode mode);

// Bytes of one rank, part by part; a resolved config only.
struct LayerMemory {
  int64_t pools = 0;           // rows of x and dY in dispatch order, with their origins
  int64_t results = 0;         // combine slots [T_max K, H] and dp [T_max K]
  int64_t replica_slots = 0;   // weights of replicas
  int64_t gradient_slots = 0;  // fp32 gradients of replicas
  int64_t packed_weights = 0;  // weights as the GEMMs read them
  int64_t tiles = 0;           // operands and accumulators of one tile
  int64_t routes = 0;          // which pairs of tokens go to which expert
  int64_t accumulators = 0;    // fp32 gradients that are not built in the output itself
  int64_t total() const {
    return pools + results + replica_slots + gradient_slots + packed_weights + tiles + routes +
           accumulators;
  }
};
// `mode`: of the backward; kNewFp32 needs no accumulators, nor does a layer without backward.
LayerMemory layer_memory(const CpuLayerConfig& config, GradientMode mode = GradientMode::kNewFp32);

// What a layer needs, and whether this build, CPU and memory limit offer it.
struct SupportReport : Requirements {
  LayerMemory memory;  // of one rank; zero if the config itself is refused
};
// `memory_limit_bytes` bounds all ranks together; 0 = unlimited.
SupportReport supports(const CpuLayerConfig& config, int64_t memory_limit_bytes = 0);

}  // namespace megaflux
