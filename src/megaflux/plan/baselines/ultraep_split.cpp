#include "megaflux/plan/baselines/ultraep_split.h"

#include <algorithm>
#include <span>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

// Shares `count` rows of one source over the instances elsewhere that have quota `left`.
void share_rest(int64_t count, int32_t source, std::span<const Instance> instances,
                std::span<const int64_t> left, std::span<int32_t> rows) {
  int64_t total = 0;
  for (size_t i = 0; i < instances.size(); ++i) {
    if (instances[i].rank != source) total += left[i];
  }
  if (count == 0) return;
  std::vector<int64_t> remainder(instances.size(), -1);
  int64_t given = 0;
  for (size_t i = 0; i < instances.size(); ++i) {
    if (instances[i].rank == source || left[i] == 0) continue;
    const int64_t share = count * left[i] / total;
    remainder[i] = count * left[i] % total;
    rows[i] += static_cast<int32_t>(share);
    given += share;
  }
  for (; given < count; ++given) {
    const auto most = std::max_element(remainder.begin(), remainder.end()) - remainder.begin();
    remainder[most] = -1;
    ++rows[most];
  }
}

void split_expert(const Plan& plan, const LoadTable& loads, int32_t expert,
                  std::span<int32_t> table) {
  const std::span<const Instance> instances = plan.instances_of(expert);
  const size_t columns = instances.size();
  std::vector<int64_t> local(columns), left(columns);
  for (size_t i = 0; i < columns; ++i) {
    const int64_t quota = loads.rows_in_blocks(expert, instances[i].first_block,
                                               instances[i].num_blocks, plan.dims().block_rows);
    local[i] = std::min<int64_t>(loads.rows(instances[i].rank, expert), quota);
    left[i] = quota - local[i];
  }
  for (int32_t source = 0; source < loads.num_ranks(); ++source) {
    const std::span<int32_t> rows = table.subspan(source * columns, columns);
    int64_t rest = loads.rows(source, expert);
    for (size_t i = 0; i < columns; ++i) {
      if (instances[i].rank != source) continue;
      rows[i] = static_cast<int32_t>(local[i]);
      rest -= local[i];
    }
    share_rest(rest, source, instances, left, rows);
  }
}

}  // namespace

UltraepSplit split_ultraep(const Plan& plan, const LoadTable& loads) {
  MF_CHECK(loads.has_sources(), "loads: totals without sources do not say where rows come from");
  const PlanDims dims = plan.dims();
  UltraepSplit split;
  split.begin.assign(1, 0);
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    split.begin.push_back(split.begin[e] + static_cast<int32_t>(plan.instances_of(e).size()));
  }
  split.rows.assign(static_cast<size_t>(dims.num_ranks) * split.begin.back(), 0);
  split.rank_rows.assign(dims.num_ranks, 0);
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    const std::span<const Instance> instances = plan.instances_of(e);
    const std::span<int32_t> table(
        split.rows.data() + static_cast<size_t>(dims.num_ranks) * split.begin[e],
        dims.num_ranks * instances.size());
    split_expert(plan, loads, e, table);
    for (size_t i = 0; i < table.size(); ++i) {
      split.rank_rows[instances[i % instances.size()].rank] += table[i];
    }
  }
  return split;
}

}  // namespace megaflux
