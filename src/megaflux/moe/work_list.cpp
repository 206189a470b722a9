#include "megaflux/moe/work_list.h"

#include <algorithm>

#include "megaflux/base/check.h"
#include "megaflux/base/math.h"

namespace megaflux {
namespace {

// Parts of the first of the two passes over the instances of a rank.
bool comes_first(PartOrder order, bool is_replica, bool is_replicated) {
  return order == PartOrder::kOwnedFirst ? !is_replica : is_replicated;
}

}  // namespace

void WorkList::assign(const Plan& plan, const LoadTable& loads, int32_t rank, PartOrder order) {
  MF_CHECK(!plan.empty(), "plan: is empty");
  const PlanDims dims = plan.dims();
  MF_CHECK(rank >= 0 && rank < dims.num_ranks, "rank: ", rank, " is outside [0, ", dims.num_ranks,
           ")");
  MF_CHECK(loads.num_experts() == dims.num_experts && loads.num_ranks() == dims.num_ranks,
           "loads: E ", loads.num_experts(), ", P ", loads.num_ranks(), " given, the plan has E ",
           dims.num_experts, ", P ", dims.num_ranks);
  rank_ = rank;
  num_tiles_ = 0;
  num_rows_ = 0;
  parts_.clear();
  const auto owner_of = plan.owner_of();
  const auto num_owned = static_cast<int32_t>(std::count(owner_of.begin(), owner_of.end(), rank));
  parts_.reserve(static_cast<size_t>(num_owned) + dims.replica_slots);
  for (const bool first_pass : {true, false}) {
    int32_t local_index = 0;
    for (int32_t e = 0; e < dims.num_experts; ++e) {
      const auto instances = plan.instances_of(e);
      for (const Instance& instance : instances) {
        if (instance.rank != rank) continue;
        const bool is_replica = instance.slot >= 0;
        if (comes_first(order, is_replica, instances.size() > 1) != first_pass) continue;
        const auto rows = static_cast<int32_t>(
            loads.rows_in_blocks(e, instance.first_block, instance.num_blocks, dims.block_rows));
        if (rows == 0) continue;
        Part part{.expert = e,
                  .weight_slot = is_replica ? num_owned + instance.slot : local_index,
                  .is_replica = is_replica,
                  .first_block = instance.first_block,
                  .num_blocks = instance.num_blocks,
                  .first_row = instance.first_block * dims.block_rows,
                  .num_rows = rows,
                  .first_tile = num_tiles_,
                  .num_tiles = ceil_div(rows, kTileRows)};
        num_tiles_ += part.num_tiles;
        num_rows_ += rows;
        parts_.push_back(part);
      }
      local_index += owner_of[e] == rank;
    }
  }
}

Tile WorkList::TileIterator::operator*() const {
  const Part& part = list_->parts_[part_idx_];
  const int32_t offset = tile_in_part_ * kTileRows;
  return {.part_idx = part_idx_,
          .index = part.first_tile + tile_in_part_,
          .first_row = part.first_row + offset,
          .num_rows = std::min(kTileRows, part.num_rows - offset)};
}

WorkList::TileIterator& WorkList::TileIterator::operator++() {
  if (++tile_in_part_ == list_->parts_[part_idx_].num_tiles) {
    tile_in_part_ = 0;
    ++part_idx_;
  }
  return *this;
}

}  // namespace megaflux
