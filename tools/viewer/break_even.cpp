#include "viewer/break_even.h"

#include <algorithm>
#include <cmath>

#include "simulate/case_sampler.h"

namespace megaflux::viewer {
namespace {

constexpr int64_t kGridFactor = 4;
constexpr double kAccepted = 1.0 / 16;

// Rows of a step stay below 2^31.
int64_t most_rows(int32_t num_ranks) {
  return std::min(kMostBreakEvenRows, ((int64_t{1} << 31) - 1) / num_ranks);
}

}  // namespace

std::optional<int64_t> break_even_rows(simulate::StepSimulator& simulator,
                                       std::span<const BreakEvenCell> cells, int32_t topk) {
  const auto wins = [&](int64_t rows_per_rank) {
    uint64_t planned_ns = 0, fixed_ns = 0;
    for (const BreakEvenCell& cell : cells) {
      if (!cell.history.empty()) simulator.set_history(cell.history);
      const auto& figures =
          simulator.simulate(simulate::scaled_loads(cell.loads, topk, rows_per_rank));
      if (!figures.planned_ns) return false;
      planned_ns += *figures.planned_ns;
      fixed_ns += *figures.fixed_ns;
    }
    return planned_ns < fixed_ns;
  };
  if (cells.empty()) return std::nullopt;
  const int64_t most = most_rows(cells[0].loads.num_ranks());
  int64_t low = 0;  // loses
  int64_t high = kLeastBreakEvenRows;
  while (high <= most && !wins(high)) {
    low = high;
    high *= kGridFactor;
  }
  if (high > most) return std::nullopt;
  while (low > 0 && static_cast<double>(high - low) > kAccepted * static_cast<double>(low)) {
    const auto middle =
        std::llround(std::sqrt(static_cast<double>(low) * static_cast<double>(high)));
    (wins(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace megaflux::viewer
