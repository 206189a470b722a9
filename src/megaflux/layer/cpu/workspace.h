// The rank-local memory of a CPU layer: allocated once, used by every launch of every layer of a
// session.
#pragma once

#include <cstdint>
#include <vector>

#include "megaflux/comm/row_map.h"
#include "megaflux/layer/cpu/host_buffer.h"
#include "megaflux/layer/cpu/layer_config.h"
#include "megaflux/layer/cpu/layer_fields.h"
#include "megaflux/layer/cpu/report.h"
#include "megaflux/layer/cpu/weights.h"
#include "megaflux/moe/work_list.h"

namespace megaflux {

// C rows in dispatch order, used as a ring of tiles. The comm role fills a tile and signals
// tiles_pulled; the compute role gives it back through tiles_done.
class RowPool {
 public:
  explicit RowPool(const CpuLayerConfig& config);
  static int64_t bytes(const CpuLayerConfig& config);

  int32_t num_tiles() const { return num_tiles_; }
  int64_t row_bytes() const { return row_bytes_; }
  std::byte* x(int32_t tile_idx) const { return x_.data() + place(tile_idx) * row_bytes_; }
  std::byte* dy(int32_t tile_idx) const { return dy_.data() + place(tile_idx) * row_bytes_; }
  float* p(int32_t tile_idx) { return p_.data() + place(tile_idx); }
  RowOrigin* origins(int32_t tile_idx) { return origins_.data() + place(tile_idx); }

 private:
  // First row of the pool tile that tile `tile_idx` of the list uses.
  int64_t place(int32_t tile_idx) const { return int64_t{tile_idx % num_tiles_} * kTileRows; }
  int32_t num_tiles_;
  int64_t row_bytes_;
  HostBuffer x_;                    // [C, H] of the layer's dtype
  HostBuffer dy_;                   // [C, H], backward only
  std::vector<float> p_;            // [C], backward only
  std::vector<RowOrigin> origins_;  // [C]
};

// A GEMM operand of one tile: fp32 values, rounded to the layer's dtype, and the form the GEMM
// reads.
class OperandTile {
 public:
  OperandTile(const CpuLayerConfig& config, int64_t width);
  float* row(int64_t r) const { return values_.as<float>() + r * width_; }
  // Rounds rows [0, num_rows), zeroes the rest and returns what the GEMM reads.
  const void* finish(int32_t num_rows);
  // What the GEMM reads, after finish().
  const void* operand() const { return is_narrow_ ? narrow_.data() : values_.data(); }
  static int64_t bytes(const CpuLayerConfig& config, int64_t width);

 private:
  int64_t width_;
  bool is_rounded_;   // dtype bf16
  bool is_narrow_;    // the GEMM reads bf16
  int64_t num_rows_;  // config.gemm_rows
  HostBuffer values_;
  HostBuffer narrow_;
};

// Buffers of the compute role, one tile of m = config.gemm_rows rows each, but for A, which waits
// for FC2.
struct TileBuffers {
  explicit TileBuffers(const CpuLayerConfig& config);
  static int64_t bytes(const CpuLayerConfig& config);

  HostBuffer x_staged;         // [m, H] as the GEMM reads it; none if it reads the pool itself
  HostBuffer dy_staged;        // [m, H], as above
  HostBuffer z;                // [128, 2I] fp32
  HostBuffer da;               // [128, I] fp32
  HostBuffer o;                // [128, H] fp32: O, or dX
  HostBuffer a_row;            // [I] fp32
  std::vector<OperandTile> a;  // [lag + 1] of [128, I]
  OperandTile pa;              // [128, I]
  OperandTile dz;              // [128, 2I]
};

struct RankWorkspace {
  RankWorkspace(const CpuLayerConfig& resolved, const LayerFields& layer_fields, int32_t rank_idx);

  CpuLayerConfig config;
  LayerFields fields;
  int32_t rank;
  int32_t num_owned;                 // E_local
  std::vector<int32_t> local_index;  // [E] place among the owner's experts
  RowPool pool;
  ReplicaSlots slots;
  std::vector<uint64_t> slot_arrivals;  // [s] copies into each slot so far
  TileGemms gemms;
  WeightPacks packs;
  TileBuffers tiles;
  std::vector<HostBuffer> accumulators;  // fp32 gradients that are not built in the output itself
  std::vector<float> token_sum;          // [H] the comm role's sum of one token
  std::vector<int32_t> forward_first_tile;  // [E] of the parts whose Z was saved; backward only
  RankReport report;                        // of the launch at hand, each role its own part
};

}  // namespace megaflux
