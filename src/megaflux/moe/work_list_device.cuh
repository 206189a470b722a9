// The work list of one rank as device data: the same parts in the same order as moe/work_list.h,
// byte for byte, built by one CTA from a plan that lies in device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "megaflux/base/block_scan_device.cuh"
#include "megaflux/base/math.h"
#include "megaflux/moe/plan_view.h"
#include "megaflux/moe/work_list.h"

namespace megaflux {

// What executors take.
struct WorkListView {
  WorkListHeader* header = nullptr;
  Part* parts = nullptr;  // [E], the first header->num_parts are in use
};

// What a list follows from.
struct WorkListSource {
  PlanView plan;                          // legal for the rows
  const uint32_t* expert_rows = nullptr;  // [E] c_e
  int32_t rank = 0;
  PartOrder order = PartOrder::kOwnedFirst;
};

namespace work_list {

// Counts of a thread's part that the threads after it need, as fields of two words: a sum over all
// threads stays inside its field. Rows are below 2^31, tiles below 2^25, the others at most 1024.
inline constexpr int kTileBits = 26;
inline constexpr int kCountBits = 12;

struct Sums {
  uint64_t rows_tiles;  // rows above tiles of the first pass
  uint64_t counts;      // tiles of the second pass, parts of either pass, owned experts

  __device__ static Sums of(int32_t rows, int32_t tiles, bool is_first, bool is_owned) {
    const uint32_t first = rows > 0 && is_first, second = rows > 0 && !is_first;
    const auto first_tiles = static_cast<uint32_t>(is_first ? tiles : 0);
    const auto second_tiles = static_cast<uint64_t>(is_first ? 0 : tiles);
    const uint64_t parts = first << kCountBits | second;
    return {static_cast<uint64_t>(rows) << kTileBits | first_tiles,
            second_tiles << 3 * kCountBits | parts << kCountBits | static_cast<uint64_t>(is_owned)};
  }
  __device__ Sums& operator+=(const Sums& other) {
    rows_tiles += other.rows_tiles;
    counts += other.counts;
    return *this;
  }
  __device__ int64_t rows() const { return static_cast<int64_t>(rows_tiles >> kTileBits); }
  __device__ int32_t first_tiles() const { return field(rows_tiles, 0, kTileBits); }
  __device__ int32_t second_tiles() const { return field(counts, 3 * kCountBits, kTileBits); }
  __device__ int32_t first_parts() const { return field(counts, 2 * kCountBits, kCountBits); }
  __device__ int32_t second_parts() const { return field(counts, kCountBits, kCountBits); }
  __device__ int32_t owned() const { return field(counts, 0, kCountBits); }

 private:
  __device__ static int32_t field(uint64_t word, int shift, int bits) {
    return static_cast<int32_t>(word >> shift & ((uint64_t{1} << bits) - 1));
  }
};

// The instance of `expert` on `rank`; without blocks if there is none.
__device__ inline Instance find_instance(const PlanView& plan, int32_t expert, int32_t rank,
                                         int32_t& num_instances) {
  const auto* const begins = reinterpret_cast<const int32_t*>(plan.bytes + plan.instance_begin);
  const auto* const instances = reinterpret_cast<const int32_t*>(plan.bytes + plan.instances);
  const int32_t begin = begins[expert];
  const int32_t end = begins[expert + 1];
  num_instances = end - begin;
  for (int32_t i = begin; i < end; ++i) {
    if (instances[4 * i] != rank) continue;
    return {rank, instances[4 * i + 1], instances[4 * i + 2], instances[4 * i + 3]};
  }
  return {};
}

// Rows inside the blocks of an instance of an expert with `total` rows. A row behind the last
// block is below 2^31 + beta.
__device__ inline int32_t rows_of(const Instance& instance, int32_t total, int32_t block_rows) {
  const auto beta = static_cast<uint32_t>(block_rows), limit = static_cast<uint32_t>(total);
  const uint32_t first = static_cast<uint32_t>(instance.first_block) * beta;
  const uint32_t end = first + static_cast<uint32_t>(instance.num_blocks) * beta;
  return static_cast<int32_t>(min(end, limit) - min(first, limit));
}

__device__ inline int32_t tiles_of(int32_t rows) {
  return static_cast<int32_t>((static_cast<uint32_t>(rows) + kTileRows - 1) / kTileRows);
}

// Word by word, so that the padding behind is_replica is zero.
__device__ inline void store_part(const Part& part, Part* place) {
  static_assert(sizeof(Part) == 9 * sizeof(int32_t) && offsetof(Part, is_replica) == 8 &&
                offsetof(Part, num_tiles) == 32);
  auto* const words = reinterpret_cast<int32_t*>(place);
  words[0] = part.expert;
  words[1] = part.weight_slot;
  words[2] = part.is_replica;
  words[3] = part.first_block;
  words[4] = part.num_blocks;
  words[5] = part.first_row;
  words[6] = part.num_rows;
  words[7] = part.first_tile;
  words[8] = part.num_tiles;
}

// What a rank has of one expert.
struct Share {
  Instance instance;
  int32_t rows = 0;
  bool is_first = false;  // computed in the first pass
  Sums sums = {0, 0};
};

__device__ inline Share find_share(const PlanView& plan, int32_t expert, int32_t expert_rows,
                                   int32_t rank, PartOrder order) {
  Share share;
  int32_t num_instances = 0;
  share.instance = find_instance(plan, expert, rank, num_instances);
  share.rows = rows_of(share.instance, expert_rows, plan.block_rows);
  share.is_first = order == PartOrder::kOwnedFirst ? share.instance.slot < 0 : num_instances > 1;
  const bool is_owned =
      reinterpret_cast<const int32_t*>(plan.bytes + plan.owner_of)[expert] == rank;
  share.sums = Sums::of(share.rows, tiles_of(share.rows), share.is_first, is_owned);
  return share;
}

// `before` are the sums of the experts before, `all` those of all.
__device__ inline void store_share(const Share& share, int32_t expert, int32_t block_rows,
                                   const Sums& before, const Sums& all, Part* parts) {
  const Instance& instance = share.instance;
  const bool is_replica = instance.slot >= 0;
  const bool is_first = share.is_first;
  const int32_t place = is_first ? before.first_parts() : all.first_parts() + before.second_parts();
  store_part(
      {.expert = expert,
       .weight_slot = is_replica ? all.owned() + instance.slot : before.owned(),
       .is_replica = is_replica,
       .first_block = instance.first_block,
       .num_blocks = instance.num_blocks,
       .first_row = instance.first_block * block_rows,
       .num_rows = share.rows,
       .first_tile = is_first ? before.first_tiles() : all.first_tiles() + before.second_tiles(),
       .num_tiles = tiles_of(share.rows)},
      parts + place);
}

}  // namespace work_list

// The warps that build a list: as many as hold experts, kExperts a thread, from `first_warp` on.
template <int32_t kExperts>
__device__ WarpsOfCta work_list_warps(int32_t num_experts, int32_t first_warp) {
  return {first_warp, ceil_div(num_experts, kExperts * kWarpThreads)};
}

// Called by all threads of work_list_warps, of which thread t has the kExperts experts from
// kExperts t on. `shared` is scratch of 64 words of 8 bytes.
template <int32_t kExperts>
__device__ void build_work_list(const WorkListSource& source, const WorkListView& out,
                                const WarpsOfCta& warps, uint64_t* shared) {
  using work_list::Sums;
  const PlanView& plan = source.plan;
  const int32_t first = kExperts * warps.thread();
  work_list::Share shares[kExperts];
  Sums mine = {0, 0};
#pragma unroll
  for (int32_t u = 0; u < kExperts; ++u) {
    if (first + u >= plan.num_experts) break;
    const auto rows = static_cast<int32_t>(source.expert_rows[first + u]);
    shares[u] = work_list::find_share(plan, first + u, rows, source.rank, source.order);
    mine += shares[u].sums;
  }
  uint64_t sums[2] = {mine.rows_tiles, mine.counts};
  uint64_t totals[2];
  scan_exclusive(sums, totals, ceil_div(plan.num_experts, kExperts), shared, warps);
  Sums before = {sums[0], sums[1]};
  const Sums all = {totals[0], totals[1]};
#pragma unroll
  for (int32_t u = 0; u < kExperts; ++u) {
    if (shares[u].rows > 0) {
      work_list::store_share(shares[u], first + u, plan.block_rows, before, all, out.parts);
    }
    before += shares[u].sums;
  }
  if (warps.thread() == 0) {
    *out.header = {.rank = source.rank,
                   .num_parts = all.first_parts() + all.second_parts(),
                   .num_tiles = all.first_tiles() + all.second_tiles(),
                   .num_owned = all.owned(),
                   .num_rows = all.rows()};
  }
}

}  // namespace megaflux
