// Tensor maps: how the copy engine cuts tiles out of the matrices of a layer. Boxes are rows of 64
// bf16 in shared memory with the 128-byte swizzle, or of 32 with the 64-byte one; what lies outside
// a matrix reads as zero and is not written.
#pragma once

#include <cstddef>
#include <cstdint>

#include "megaflux/layer/mega/mega_config.h"

namespace megaflux {

// A CUtensorMap, for headers without the driver's.
struct alignas(64) TensorMap {
  uint64_t words[16];
};

// Of one rank; coordinates innermost first.
struct MegaMaps {
  TensorMap x_load;   // {k, pool row}: a tile's 128 rows
  TensorMap a_load;   // {k, pool row}: the same
  TensorMap a_store;  // {channel, pool row}: 64 rows of 32 channels
  // Of owned experts and of slots. {k, 0, 0, channel / 8, expert or slot}: of 128 channels 8 gates,
  // 8 ups, 8 gates and so on; ups come first if W1 is [up; gate].
  TensorMap w1, slot_w1;
  TensorMap w2, slot_w2;  // {k, row, expert or slot}: 256 rows
};

struct MegaMatrices {
  const void* x = nullptr;   // [C, H]
  const void* a = nullptr;   // [C, I]
  const void* w1 = nullptr;  // [E_local, 2I, H]
  const void* w2 = nullptr;  // [E_local, H, I]
  int32_t num_owned = 0;  // E_local; without any, their maps are not used, and likewise for slots
  const void* slot_w1 = nullptr;  // [s, 2I, H]
  const void* slot_w2 = nullptr;  // [s, H, I]
};
// Throws kBadInput if a matrix is not at a multiple of 16 bytes.
MegaMaps make_maps(const MegaConfig& config, const MegaMatrices& matrices);

}  // namespace megaflux
