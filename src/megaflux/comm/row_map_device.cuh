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
#pragma unroll 1  // few registers, and a step is a trip to memory
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

// Rows of one expert.
struct SourceRows {
  uint32_t rows = 0;    // of one source
  uint32_t before = 0;  // of all sources before it
};

// Writes what the map says of one source: rows_of(expert) are the rows of an expert, asked once by
// one thread. Called by all threads of one CTA; `shared` is scratch of kMaxCtaWarps words.
template <class RowsOf>
__device__ void map_source(int32_t source, const RowMapView& map, uint64_t* shared,
                           RowsOf&& rows_of) {
  const int64_t row = static_cast<int64_t>(source) * map.num_experts;
  int32_t* const offsets = map.route_offsets + row + source;  // [E + 1] of this source
  uint32_t begin = 0;
  const auto num_threads = static_cast<int32_t>(blockDim.x);
#pragma unroll 1
  for (int32_t first = 0; first < map.num_experts; first += num_threads) {
    const int32_t expert = first + static_cast<int32_t>(threadIdx.x);
    const bool exists = expert < map.num_experts;
    const SourceRows mine = exists ? rows_of(expert) : SourceRows{};
    if (exists) {
      map.source_begin[row + expert] = static_cast<int32_t>(mine.before);
      if (source == map.num_ranks - 1) {
        map.source_begin[row + map.num_experts + expert] =
            static_cast<int32_t>(mine.before + mine.rows);
      }
    }
    uint64_t offset[1] = {mine.rows}, total[1];
    scan_exclusive(offset, total, min(map.num_experts - first, num_threads), shared);
    if (exists) offsets[expert] = static_cast<int32_t>(begin + offset[0]);
    begin += static_cast<uint32_t>(total[0]);
  }
  if (threadIdx.x == 0) offsets[map.num_experts] = static_cast<int32_t>(begin);
}

}  // namespace megaflux
