// Full detail of chosen cells, packed row after row.
//
// Example, D = 1, E = 2, P = 2, owners {0, 1}, rows {{4, 0}, {2, 2}}, and a plan that gives expert
// 0's rows 4 and 5 to rank 1: expert_rows {6, 2}, rows_before {6, 2}, rows_after {4, 4},
// instance_begin {0, 3} with instances (expert, rank, rows) (0, 0, 4), (0, 1, 2), (1, 1, 2).
// Sources: traffic_before {4, 0, 2, 2}, traffic_after {4, 0, 0, 4}, rows[source][host].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/trace/trace.h"
#include "viewer/report_setting.h"

namespace megaflux::viewer {

struct DetailTable {
  std::vector<uint32_t> expert_rows;      // [D, E]
  std::vector<uint32_t> rows_before;      // [D, P] with fixed placement
  std::vector<uint32_t> rows_after;       // [D, P]
  std::vector<uint32_t> instance_begin;   // [D + 1]
  std::vector<uint16_t> instance_expert;  // [M], of a cell by (expert, rank); those with rows
  std::vector<uint16_t> instance_rank;    // [M]
  std::vector<uint32_t> instance_rows;    // [M]
  std::vector<uint32_t> traffic_before;   // [D, P, P]; empty without sources
  std::vector<uint32_t> traffic_after;    // [D, P, P]; empty without sources
};

// Plans `cells` again, which gives the same plans.
DetailTable plan_details(const Trace& trace, const ReportSetting& setting,
                         std::span<const uint32_t> cells);

// Bytes that one of `cells` takes on average after deflating, measured on some of them.
int64_t deflated_detail_bytes(const Trace& trace, const ReportSetting& setting,
                              std::span<const uint32_t> cells);

}  // namespace megaflux::viewer
