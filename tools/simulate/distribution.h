// How a figure is spread over many steps and layers.
//
// Example, samples {4, 1, 3, 2}: median 2 (half of them lie at or below it), p90, p99 and max 4,
// mean 2.5.
#pragma once

#include <span>
#include <vector>

namespace megaflux::simulate {

// The least sample at or below which `percent` of them lie (nearest rank); `sorted` is ascending
// and not empty.
template <typename Number>
Number nearest_rank(std::span<const Number> sorted, double percent);

// The same of samples in any order.
double percentile(std::vector<double> samples, double percent);

struct Distribution {
  double median = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
  double mean = 0;
  friend bool operator==(const Distribution&, const Distribution&) = default;
};

// Sorts the samples where they are; no samples give zeros.
Distribution distribution_of(std::span<float> samples);

}  // namespace megaflux::simulate
