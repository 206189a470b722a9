#include "megaflux/plan/split_table.h"

#include <algorithm>
#include <numeric>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

// Gives `count` rows of one source to columns with `left` rows of quota, in proportion: floors
// first, then one row each by largest remainder, ties to the lower column. Adds to `rows`, takes
// from `left`. sum(left) = total_left >= count, so a share never passes its column's quota: a
// column with a remainder has floor(share) < share <= left.
void split_source(int64_t count, int64_t total_left, std::span<int32_t> left,
                  std::span<int64_t> remainder, std::span<int32_t> rows) {
  int64_t given = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    const int64_t product = count * left[i];
    const auto share = static_cast<int32_t>(product / total_left);
    remainder[i] = product % total_left;
    rows[i] += share;
    left[i] -= share;
    given += share;
  }
  for (; given < count; ++given) {
    const auto i = std::max_element(remainder.begin(), remainder.end()) - remainder.begin();
    remainder[i] = -1;
    ++rows[i];
    --left[i];
  }
}

}  // namespace

void SplitTable::assign(const Plan& plan, const LoadTable& loads) {
  MF_CHECK(!plan.empty(), "plan: is empty");
  const PlanDims dims = plan.dims();
  MF_CHECK(loads.num_experts() == dims.num_experts && loads.num_ranks() == dims.num_ranks,
           "loads: E ", loads.num_experts(), ", P ", loads.num_ranks(), " given, the plan has E ",
           dims.num_experts, ", P ", dims.num_ranks);
  MF_CHECK(loads.has_sources(), "loads: totals without sources do not say where rows come from");
  num_ranks_ = dims.num_ranks;
  begin_.assign(1, 0);
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    begin_.push_back(begin_[e] + static_cast<int32_t>(plan.instances_of(e).size()));
  }
  rows_.assign(static_cast<size_t>(num_ranks_) * begin_.back(), 0);
  for (int32_t e = 0; e < dims.num_experts; ++e) split_expert(plan, loads, e);
}

void SplitTable::split_expert(const Plan& plan, const LoadTable& loads, int32_t expert) {
  const std::span<const Instance> instances = plan.instances_of(expert);
  const size_t columns = instances.size();
  const std::span<int32_t> table(rows_.data() + static_cast<size_t>(num_ranks_) * begin_[expert],
                                 num_ranks_ * columns);
  left_.resize(columns);
  remainder_.resize(columns);
  int64_t total_left = 0;
  for (size_t i = 0; i < columns; ++i) {
    const Instance& instance = instances[i];
    const auto quota = static_cast<int32_t>(loads.rows_in_blocks(
        expert, instance.first_block, instance.num_blocks, plan.dims().block_rows));
    const int32_t local = std::min(loads.rows(instance.rank, expert), quota);
    table[instance.rank * columns + i] = local;
    left_[i] = quota - local;
    total_left += left_[i];
  }
  for (int32_t source = 0; source < num_ranks_ && total_left > 0; ++source) {
    const std::span<int32_t> own = table.subspan(source * columns, columns);
    const int32_t kept = std::accumulate(own.begin(), own.end(), 0);
    const int64_t count = int64_t{loads.rows(source, expert)} - kept;
    split_source(count, total_left, left_, remainder_, own);
    total_left -= count;
  }
}

std::span<const int32_t> SplitTable::rows(int32_t source, int32_t expert) const {
  const size_t columns = begin_[expert + 1] - begin_[expert];
  return {rows_.data() + static_cast<size_t>(num_ranks_) * begin_[expert] + source * columns,
          columns};
}

int32_t SplitTable::instance_of(int32_t source, int32_t expert, int32_t ordinal) const {
  const std::span<const int32_t> own = rows(source, expert);
  int32_t position = ordinal;
  for (size_t i = 0; i < own.size(); ++i) {
    if (position < own[i]) return static_cast<int32_t>(i);
    position -= own[i];
  }
  throw_error(ErrorCode::kBadInput, "split: row ", ordinal, " of source ", source, " for expert ",
              expert, ", which has ", ordinal - position, " rows");
}

}  // namespace megaflux
