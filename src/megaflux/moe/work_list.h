// WorkList: what one rank computes under a plan, and the one iterator over it that every executor
// walks.
//
// Example: the plan of plan.h seen by rank 1 (s = 1, one owned expert, c = {600, 100, 90}, beta =
// 128), in forward order (owned parts first, replicas last, since their weights are still on the
// way):
//   parts = {expert 2, weight_slot 0 (first owned), blocks [0, 1), rows [0, 90),    tiles [0, 1)}
//           {expert 0, weight_slot 1 (slot 0),      blocks [3, 5), rows [384, 600), tiles [1, 3)}
// A part is a row range of one expert; its tiles start at its first row and hold up to 128 rows
// each, whatever block_rows is. Tile n of the list uses pool tile n, or n mod (C / 128) in a ring
// of C rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"

namespace megaflux {

// Rows of one MMA tile; also the unit of pool memory.
inline constexpr int32_t kTileRows = 128;

struct Part {
  int32_t expert = 0;
  int32_t weight_slot = 0;  // in the rank's weight pool: [0, E_local) owned, then replica slots
  bool is_replica = false;
  int32_t first_block = 0;
  int32_t num_blocks = 0;
  int32_t first_row = 0;   // in the expert's global row order
  int32_t num_rows = 0;    // > 0
  int32_t first_tile = 0;  // position in the list of tiles
  int32_t num_tiles = 0;   // ceil(num_rows / 128)
};

// One tile of a part, as executors see it.
struct Tile {
  int32_t part_idx = 0;
  int32_t index = 0;      // position in the list of all tiles of the rank
  int32_t first_row = 0;  // in the expert's global row order
  int32_t num_rows = 0;   // 1 ... 128; the rest of the tile is padding
};

// What device memory holds beside the parts of a list (work_list_device.cuh).
struct WorkListHeader {
  int32_t rank = 0;
  int32_t num_parts = 0;
  int32_t num_tiles = 0;
  int32_t num_owned = 0;  // E_local: weight slots from here on are replica slots
  int64_t num_rows = 0;   // without padding
};
static_assert(sizeof(WorkListHeader) == 24);

enum class PartOrder : uint8_t {
  kOwnedFirst,       // forward: compute owned experts while replica weights arrive
  kReplicatedFirst,  // backward: experts with several instances first: partials reduce early
};

class WorkList {
 public:
  // Rebuilds the list for `rank`, reusing the memory. Parts without rows are left out. The plan
  // must be legal for the loads. Throws kBadInput if it is empty (no legal plan), does not fit the
  // loads' E and P, or has no such rank.
  void assign(const Plan& plan, const LoadTable& loads, int32_t rank, PartOrder order);

  int32_t rank() const { return rank_; }
  std::span<const Part> parts() const { return parts_; }
  int32_t num_tiles() const { return num_tiles_; }
  // Rows the rank computes, without padding.
  int64_t num_rows() const { return num_rows_; }

  class TileIterator {
   public:
    using value_type = Tile;
    using difference_type = std::ptrdiff_t;
    TileIterator() = default;
    TileIterator(const WorkList* list, int32_t part_idx) : list_(list), part_idx_(part_idx) {}
    Tile operator*() const;
    TileIterator& operator++();
    TileIterator operator++(int) {
      TileIterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const TileIterator&, const TileIterator&) = default;

   private:
    const WorkList* list_ = nullptr;
    int32_t part_idx_ = 0;
    int32_t tile_in_part_ = 0;
  };
  TileIterator begin() const { return {this, 0}; }
  TileIterator end() const { return {this, static_cast<int32_t>(parts_.size())}; }

 private:
  int32_t rank_ = 0;
  int32_t num_tiles_ = 0;
  int64_t num_rows_ = 0;
  std::vector<Part> parts_;
};

}  // namespace megaflux
