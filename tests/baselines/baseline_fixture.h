// Short ways to run a rival and to read what the comparison tables list.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "megaflux/plan/legality.h"
#include "megaflux/plan/plan_stats.h"
#include "plan/planner_fixture.h"

namespace megaflux {

// What a comparison table lists of a plan.
struct Figures {
  double imbalance = 0;  // max / mean, rounded to three places
  int32_t replicas = 0;
  int64_t moved = 0;  // rows computed away from their owner
  int32_t slots = 0;  // most replicas on a rank

  friend bool operator==(const Figures&, const Figures&) = default;
};

inline std::ostream& operator<<(std::ostream& out, const Figures& f) {
  return out << f.imbalance << " r" << f.replicas << " mv" << f.moved << " sl" << f.slots;
}

inline double rounded(double value, int32_t places = 3) {
  const double unit = std::pow(10.0, places);
  return std::round(value * unit) / unit;
}

inline PlanConfig baseline_config(PlannerKind kind, const std::vector<int64_t>& totals,
                                  int32_t num_ranks, int32_t slots) {
  return row_config(kind, static_cast<int32_t>(totals.size()), num_ranks, slots);
}

// Plans once; every plan is checked for legality on the way.
inline Planned run_baseline(const PlanConfig& config, const std::vector<int64_t>& totals) {
  const LoadTable loads = loads_of(config.dims.num_ranks, totals);
  Planned planned = plan_once(config, loads);
  const auto violations = check_plan(planned.plan, loads, config_as_planned(config, planned.plan));
  if (!violations.empty()) throw std::runtime_error(violations[0]);
  return planned;
}

inline Figures figures_of(const Planned& planned) {
  Figures figures;
  int64_t total = 0;
  for (const int32_t load : planned.loads) total += load;
  const double mean = static_cast<double>(total) / static_cast<double>(planned.loads.size());
  figures.imbalance = rounded(planned.plan.header().max_blocks / mean);
  figures.replicas = planned.plan.num_replicas();
  figures.moved = planned.moved;
  figures.slots = planned.report.slots_needed;
  return figures;
}

inline Figures figures_of(const PlanConfig& config, const std::vector<int64_t>& totals) {
  return figures_of(run_baseline(config, totals));
}

}  // namespace megaflux
