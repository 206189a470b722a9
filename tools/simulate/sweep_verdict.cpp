#include "simulate/sweep_verdict.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace megaflux::simulate {
namespace {

bool can_win(const SweepRow& row) {
  return row.num_cells > 0 && !row.is_over_budget && !row.moves_owners;
}

// Least is best.
std::tuple<double, double, int32_t> merit_of(const SweepRow& row) {
  const double quality =
      row.planned_us ? row.planned_us->mean : std::round(row.imbalance.p99 * 1000) / 1000;
  return {quality, row.copies.mean, row.replica_slots};
}

bool is_same_task(const SweepRow& a, const SweepRow& b) {
  return a.num_ranks == b.num_ranks && a.rows_per_rank == b.rows_per_rank;
}

bool is_same_setting(const SweepRow& a, const SweepRow& b) {
  return a.num_ranks == b.num_ranks && a.replica_slots == b.replica_slots && a.planner == b.planner;
}

}  // namespace

void fill_memory(const LayerShape& shape, int32_t num_layers, SweepRow& row) {
  row.slot_bytes = shape.expert_bytes();
  const int64_t slots = std::max(row.replica_slots, row.slots_needed);
  row.unshared_memory_bytes = slots * num_layers * *row.slot_bytes;
  row.slot_memory_bytes =
      row.planner.by_history ? *row.unshared_memory_bytes : slots * *row.slot_bytes;
}

void fill_shares(SweepRow& row) {
  if (!row.planned_us || row.planned_us->mean == 0) return;
  row.speedup = row.fixed_us->mean / row.planned_us->mean;
  row.share_of_ideal = row.ideal_us->mean / row.planned_us->mean;
  row.share_of_second_ideal = row.second_ideal_us->mean / row.planned_us->mean;
}

void mark_best(std::vector<SweepRow>& rows) {
  for (SweepRow& row : rows) {
    if (!can_win(row)) continue;
    row.is_best = std::none_of(rows.begin(), rows.end(), [&](const SweepRow& other) {
      if (!is_same_task(row, other) || !can_win(other)) return false;
      const auto merit = merit_of(row), others = merit_of(other);
      return others < merit || (others == merit && &other < &row);
    });
  }
}

void fill_break_even(std::vector<SweepRow>& rows) {
  for (SweepRow& row : rows) {
    std::vector<const SweepRow*> points;
    for (const SweepRow& other : rows) {
      if (is_same_setting(row, other) && other.rows_per_rank > 0) points.push_back(&other);
    }
    if (points.size() < 2) continue;
    std::sort(points.begin(), points.end(), [](const SweepRow* a, const SweepRow* b) {
      return a->rows_per_rank > b->rows_per_rank;
    });
    row.break_even_rows.reset();
    for (const SweepRow* point : points) {
      if (!point->speedup || *point->speedup <= 1) break;
      row.break_even_rows = point->rows_per_rank;
    }
  }
}

}  // namespace megaflux::simulate
