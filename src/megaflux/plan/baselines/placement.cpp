#include "megaflux/plan/baselines/placement.h"

#include <algorithm>

namespace megaflux {
namespace {

// Deals `count` rows in turns to the copies that `is_chosen` accepts; false if it accepts none.
template <typename Predicate>
bool deal(int32_t count, std::span<int32_t> rows, const Predicate& is_chosen) {
  int32_t chosen = 0;
  for (size_t i = 0; i < rows.size(); ++i) chosen += is_chosen(i);
  if (chosen == 0) return false;
  int32_t turn = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (is_chosen(i)) rows[i] += count / chosen + (turn++ < count % chosen);
  }
  return true;
}

void deal_to_nearest(int32_t count, int32_t source, int32_t node_ranks,
                     std::span<const int32_t> copies, std::span<int32_t> rows) {
  if (deal(count, rows, [&](size_t i) { return copies[i] == source; })) return;
  const auto is_on_node = [&](size_t i) { return copies[i] / node_ranks == source / node_ranks; };
  if (deal(count, rows, is_on_node)) return;
  deal(count, rows, [](size_t) { return true; });
}

}  // namespace

void Placement::assign(std::span<const PlacedCopy> copies, std::span<const int32_t> owners) {
  const size_t num_experts = owners.size();
  copy_begin.assign(num_experts + 2, 0);
  // copy_begin[e + 2] counts, and copy_begin[e + 1] is then where the next copy of e goes.
  for (const PlacedCopy& copy : copies) ++copy_begin[copy.expert + 2];
  for (size_t e = 0; e < num_experts; ++e) {
    copy_begin[e + 2] = std::max(1, copy_begin[e + 2]) + copy_begin[e + 1];
  }
  copy_rank.assign(copy_begin[num_experts + 1], -1);
  for (const PlacedCopy& copy : copies) copy_rank[copy_begin[copy.expert + 1]++] = copy.rank;
  for (size_t e = 0; e < num_experts; ++e) {
    if (copy_rank[copy_begin[e]] >= 0) continue;
    copy_rank[copy_begin[e]] = owners[e];
    ++copy_begin[e + 1];
  }
  copy_begin.pop_back();
  owner_of.resize(num_experts);
  for (size_t e = 0; e < num_experts; ++e) owner_of[e] = copy_rank[copy_begin[e]];
}

int32_t slots_needed(const Placement& placement, int32_t num_ranks) {
  std::vector<int32_t> used(num_ranks, 0);
  for (size_t e = 0; e < placement.owner_of.size(); ++e) {
    const std::span<const int32_t> copies = placement.copies_of(static_cast<int32_t>(e));
    for (auto copy = copies.begin(); copy != copies.end(); ++copy) {
      used[*copy] += std::find(copies.begin(), copy, *copy) == copy && *copy != copies[0];
    }
  }
  return *std::max_element(used.begin(), used.end());
}

int32_t moved_owners(const Placement& placement, std::span<const int32_t> owner_of) {
  int32_t moved = 0;
  for (size_t e = 0; e < owner_of.size(); ++e) moved += placement.owner_of[e] != owner_of[e];
  return moved;
}

void split_rows(const Placement& placement, const LoadTable& loads, CopySelection selection,
                int32_t num_nodes, std::span<int32_t> rows) {
  std::fill(rows.begin(), rows.end(), 0);
  const int32_t node_ranks = loads.num_ranks() / num_nodes;
  const auto any = [](size_t) { return true; };
  for (int32_t e = 0; e < loads.num_experts(); ++e) {
    const std::span<const int32_t> copies = placement.copies_of(e);
    const std::span<int32_t> own = rows.subspan(placement.copy_begin[e], copies.size());
    if (selection == CopySelection::kRoundRobin) {
      deal(loads.totals()[e], own, any);
      continue;
    }
    for (int32_t source = 0; source < loads.num_ranks(); ++source) {
      const int32_t count = loads.rows(source, e);
      if (selection == CopySelection::kEachSource) {
        deal(count, own, any);
      } else {
        deal_to_nearest(count, source, node_ranks, copies, own);
      }
    }
  }
}

}  // namespace megaflux
