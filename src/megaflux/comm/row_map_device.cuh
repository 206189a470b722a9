// Row maps in device memory: prefix sums of the load table, with which a puller finds any global
// row in the route list of its source. Only the list itself lies in the source's memory; its
// offsets follow from the counts that every rank has.
//
// Example, P = 2, E = 2, rows = {{1, 2}, {0, 2}} (the routes of row_map.h):
//   source_begin  = {{0, 0}, {1, 2}, {1, 4}}   [P + 1, E]
//   route_offsets = {{0, 1, 3}, {0, 0, 2}}     [P, E + 1]
// Row 3 of expert 1 lies in [2, 4), so it is row 1 of source 1, whose pairs of expert 1 begin at 0:
// the pair is pairs[1] of source 1.
#pragma once

#include <cstdint>

#include "megaflux/base/block_scan_device.cuh"
#include "megaflux/comm/entry_exit_device.cuh"

namespace megaflux {

struct RowMapView {
  int32_t* source_begin = nullptr;   // [P + 1, E] first global row of each source; last = c_e
  int32_t* route_offsets = nullptr;  // [P, E + 1] first pair of each expert in a source's list
  int32_t num_ranks = 0;
  int32_t num_experts = 0;
};

// A place in a route list.
struct RoutePlace {
  int32_t source = 0;
  int32_t index = 0;  // pairs[index] of that source is token * K + k
};

// Where global row `row` of `expert` stands; row < c_e. Successive rows of one source have
// successive places.
__device__ inline RoutePlace locate_row(const RowMapView& map, int32_t expert, int32_t row) {
  int32_t source = 0, above = map.num_ranks;  // begin[source] <= row < begin[above]
  const int32_t* const begin = map.source_begin + expert;
  while (above - source > 1) {
    const int32_t middle = (source + above) / 2;
    if (begin[static_cast<int64_t>(middle) * map.num_experts] <= row) {
      source = middle;
    } else {
      above = middle;
    }
  }
  const int64_t source_row = static_cast<int64_t>(source) * map.num_experts;
  return {source, map.route_offsets[source_row + source + expert] + row - begin[source_row]};
}

// Everybody's counts as they came with an entry.
struct PayloadView {
  const uint32_t* words = nullptr;  // [P, stride], the rows per expert first
  int32_t stride = 0;

  // Of the launch that was entered; valid until the rank's next post_entry.
  __device__ static PayloadView of(const DeviceRank& self) {
    return {payload_of(self, 0), self.group.protocol.payload_words};
  }
  __device__ uint32_t at(int32_t rank, int32_t expert) const {
    return words[static_cast<int64_t>(rank) * stride + expert];
  }
};

// Writes what the map says of one source. Called by all threads of one CTA, of which thread t has
// the kExperts experts from kExperts t on; `shared` is scratch of kMaxCtaWarps words.
template <int32_t kExperts>
__device__ void map_source(const PayloadView& counts, int32_t source, const RowMapView& map,
                           uint64_t* shared) {
  const int32_t first = kExperts * static_cast<int32_t>(threadIdx.x);
  const int64_t row = static_cast<int64_t>(source) * map.num_experts;
  uint32_t rows[kExperts] = {};
  uint64_t offset[1] = {0}, total[1];
#pragma unroll
  for (int32_t u = 0; u < kExperts; ++u) {
    const int32_t expert = first + u;
    if (expert >= map.num_experts) break;
    uint32_t before = 0;
#pragma unroll 4
    for (int32_t p = 0; p < source; ++p) before += counts.at(p, expert);
    rows[u] = counts.at(source, expert);
    offset[0] += rows[u];
    map.source_begin[row + expert] = static_cast<int32_t>(before);
    if (source == map.num_ranks - 1) {
      map.source_begin[row + map.num_experts + expert] = static_cast<int32_t>(before + rows[u]);
    }
  }
  scan_exclusive(offset, total, ceil_div(map.num_experts, kExperts), shared);
  int32_t* const offsets = map.route_offsets + row + source;  // [E + 1] of this source
#pragma unroll
  for (int32_t u = 0; u < kExperts; ++u) {
    if (first + u < map.num_experts) offsets[first + u] = static_cast<int32_t>(offset[0]);
    offset[0] += rows[u];
  }
  if (threadIdx.x == 0) offsets[map.num_experts] = static_cast<int32_t>(total[0]);
}

}  // namespace megaflux
