#include "cli/bench/forward_ratios.h"

#include <utility>

#include "simulate/distribution.h"

namespace megaflux::cli {
namespace {

constexpr std::pair<const char*, const char*> kNamedRatios[] = {{"fixed", "skew_speedup"},
                                                                {"staged", "pipelined_over_staged"},
                                                                {"second ideal", "ideal_fraction"},
                                                                {"ideal", "balanced_fraction"}};

const ForwardRunFigures* run_of(std::span<const ForwardSide> sides,
                                const ForwardBenchFigures& figures, const std::string& name) {
  for (size_t i = 0; i < sides.size(); ++i) {
    if (sides[i].name == name) return &figures.runs[i];
  }
  return nullptr;
}

double median(const std::vector<double>& values) {
  return simulate::percentile(values, 50);
}

double median_ratio(const PairTimes& ms) {
  std::vector<double> ratios;
  for (size_t n = 0; n < ms.run.size(); ++n) ratios.push_back(ms.run[n] / ms.first[n]);
  return median(ratios);
}

ForwardRatio make_ratio(const std::string& name, const PairTimes& ms) {
  ForwardRatio ratio{.name = name, .value = median_ratio(ms), .pairs = {}};
  for (size_t n = 0; n < ms.run.size(); ++n) ratio.pairs.push_back({ms.run[n], ms.first[n]});
  return ratio;
}

// Is fixed placement the better choice, or replicas whatever they cost? Each by its pairs.
bool fixed_leads(const ForwardRunFigures& fixed, const ForwardRunFigures& ungated) {
  return median_ratio(fixed.ms) <= median_ratio(ungated.ms);
}

}  // namespace

std::vector<ForwardRatio> ratios_of(std::span<const ForwardSide> sides,
                                    const ForwardBenchFigures& figures) {
  std::vector<ForwardRatio> ratios = {make_ratio("self_ratio", figures.runs[0].ms)};
  for (const auto& [side, name] : kNamedRatios) {
    if (const auto* const run = run_of(sides, figures, side)) {
      ratios.push_back(make_ratio(name, run->ms));
    }
  }
  const ForwardRunFigures* const fixed = run_of(sides, figures, "fixed");
  const ForwardRunFigures* const ungated = run_of(sides, figures, "ungated");
  if (fixed != nullptr && ungated != nullptr) {
    const auto& better = fixed_leads(*fixed, *ungated) ? *fixed : *ungated;
    ratios.push_back(make_ratio("gate_ratio", better.ms));
  }
  return ratios;
}

std::optional<std::string> gate_plan_of(std::span<const ForwardSide> sides,
                                        const ForwardBenchFigures& figures) {
  const ForwardRunFigures* const fixed = run_of(sides, figures, "fixed");
  const ForwardRunFigures* const ungated = run_of(sides, figures, "ungated");
  if (fixed == nullptr || ungated == nullptr) return std::nullopt;
  const Plan& plan = figures.runs[0].plan;
  const bool is_ungated = plan.header().hash == ungated->plan.header().hash;
  const bool is_fixed_better = fixed_leads(*fixed, *ungated);
  // Without replicas both may be one plan.
  if (plan.num_replicas() == 0 && (is_fixed_better || !is_ungated)) {
    return is_fixed_better ? "fixed, the better one" : "fixed, not the better one";
  }
  if (!is_ungated) return "of its own";
  return is_fixed_better ? "ungated, not the better one" : "ungated, the better one";
}

std::optional<HiddenFraction> hidden_of(std::span<const ForwardSide> sides,
                                        const ForwardBenchFigures& figures) {
  const ForwardRunFigures* const resident = run_of(sides, figures, "resident");
  const ForwardRunFigures* const staged = run_of(sides, figures, "staged");
  if (resident == nullptr || staged == nullptr) return std::nullopt;
  if (figures.runs[0].plan.header().num_copies == 0) return std::nullopt;
  HiddenFraction hidden;
  std::vector<double> exposed, transfers;
  const PairTimes& free = resident->ms;
  for (size_t n = 0; n < free.run.size(); ++n) {
    exposed.push_back(free.first[n] - free.run[n]);
    transfers.push_back(staged->ms.run[n] - staged->ms.first[n] + exposed.back());
    hidden.triples.push_back({free.first[n], free.run[n], transfers.back()});
  }
  const double transfer = median(transfers);
  if (transfer <= 0) return std::nullopt;
  hidden.value = 1 - median(exposed) / transfer;
  return hidden;
}

}  // namespace megaflux::cli
