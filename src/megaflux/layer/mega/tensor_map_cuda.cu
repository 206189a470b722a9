#include "megaflux/layer/mega/tensor_map_cuda.h"

#include <cuda.h>

#include <array>
#include <cstring>
#include <span>

#include "megaflux/base/driver_cuda.h"
#include "megaflux/moe/work_list.h"

namespace megaflux {
namespace {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));

struct Box {
  const void* base;
  std::span<const uint64_t> sizes;    // innermost first, in elements
  std::span<const uint64_t> strides;  // of all but the innermost, in bytes
  std::span<const uint32_t> box;
};

// A row of the box is as long as the swizzle.
CUtensorMapSwizzle swizzle_of(uint32_t columns) {
  return columns == kStagedChannels ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B;
}

TensorMap encode(const Box& of) {
  constexpr std::array<uint32_t, 5> kDense = {1, 1, 1, 1, 1};
  MF_CHECK(reinterpret_cast<uintptr_t>(of.base) % 16 == 0,
           "weights: do not begin at a multiple of 16 bytes");
  CUtensorMap map;
  MF_DRIVER(cuTensorMapEncodeTiled, &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            static_cast<uint32_t>(of.sizes.size()), const_cast<void*>(of.base), of.sizes.data(),
            of.strides.data(), of.box.data(), kDense.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle_of(of.box[0]), CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  TensorMap words;
  std::memcpy(&words, &map, sizeof(map));
  return words;
}

TensorMap row_map(const void* base, uint64_t rows, uint64_t columns, std::array<uint32_t, 2> box) {
  const std::array<uint64_t, 2> sizes = {columns, rows};
  const std::array<uint64_t, 1> strides = {2 * columns};
  return encode({base, sizes, strides, box});
}

TensorMap w1_map(const MegaConfig& config, const void* base, int32_t num_weights) {
  constexpr uint32_t kEight = 8;  // columns of a thread quad's accumulators
  const uint64_t hidden = config.shape.hidden, inter = config.shape.inter;
  const uint64_t row = 2 * hidden;
  const std::array<uint64_t, 5> sizes = {hidden, kEight, 2, inter / kEight,
                                         static_cast<uint64_t>(num_weights)};
  const std::array<uint64_t, 4> strides = {row, inter * row, kEight * row, 2 * inter * row};
  const std::array<uint32_t, 5> box = {kTileDepth, kEight, 2, kTileChannels / kEight, 1};
  return encode({base, sizes, strides, box});
}

TensorMap w2_map(const MegaConfig& config, const void* base, int32_t num_weights) {
  const uint64_t hidden = config.shape.hidden, inter = config.shape.inter;
  const std::array<uint64_t, 3> sizes = {inter, hidden, static_cast<uint64_t>(num_weights)};
  const std::array<uint64_t, 2> strides = {2 * inter, 2 * inter * hidden};
  const std::array<uint32_t, 3> box = {kTileDepth, kTileColumns, 1};
  return encode({base, sizes, strides, box});
}

}  // namespace

MegaMaps make_maps(const MegaConfig& config, const MegaMatrices& matrices) {
  const auto rows = static_cast<uint64_t>(config.pool_rows);
  const auto hidden = static_cast<uint64_t>(config.shape.hidden);
  const auto inter = static_cast<uint64_t>(config.shape.inter);
  constexpr uint32_t kStoredRows = kTileRows / 2;
  MegaMaps maps = {};
  maps.x_load = row_map(matrices.x, rows, hidden, {kTileDepth, kTileRows});
  maps.a_load = row_map(matrices.a, rows, inter, {kTileDepth, kTileRows});
  maps.a_store = row_map(matrices.a, rows, inter, {kStagedChannels, kStoredRows});
  if (matrices.num_owned > 0) {
    maps.w1 = w1_map(config, matrices.w1, matrices.num_owned);
    maps.w2 = w2_map(config, matrices.w2, matrices.num_owned);
  }
  if (config.replica_slots > 0) {
    maps.slot_w1 = w1_map(config, matrices.slot_w1, config.replica_slots);
    maps.slot_w2 = w2_map(config, matrices.slot_w2, config.replica_slots);
  }
  return maps;
}

}  // namespace megaflux
