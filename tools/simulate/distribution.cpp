#include "simulate/distribution.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace megaflux::simulate {

template <typename Number>
Number nearest_rank(std::span<const Number> sorted, double percent) {
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()));
  const auto index = static_cast<size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}
template float nearest_rank(std::span<const float> sorted, double percent);
template double nearest_rank(std::span<const double> sorted, double percent);

double percentile(std::vector<double> samples, double percent) {
  std::sort(samples.begin(), samples.end());
  return nearest_rank<double>(samples, percent);
}

Distribution distribution_of(std::span<float> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const std::span<const float> sorted = samples;
  // Added up in sorted order, so that the mean does not depend on who delivered which sample.
  const double sum = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  return {.median = nearest_rank(sorted, 50),
          .p90 = nearest_rank(sorted, 90),
          .p99 = nearest_rank(sorted, 99),
          .max = sorted.back(),
          .mean = sum / static_cast<double>(sorted.size())};
}

}  // namespace megaflux::simulate
