#include "cli/bench/forward_ratios.h"

#include <utility>

#include "simulate/distribution.h"

namespace megaflux::cli {
namespace {

constexpr std::pair<const char*, const char*> kNamedRatios[] = {{"fixed", "skew_speedup"},
                                                                {"staged", "pipelined_over_staged"},
                                                                {"second ideal", "ideal_fraction"}};

const ForwardRunFigures* run_of(std::span<const ForwardSide> sides,
                                const ForwardBenchFigures& figures, const std::string& name) {
  for (size_t i = 0; i < sides.size(); ++i) {
    if (sides[i].name == name) return &figures.runs[i];
  }
  return nullptr;
}

const std::vector<double>* times_of(std::span<const ForwardSide> sides,
                                    const ForwardBenchFigures& figures, const std::string& name) {
  const ForwardRunFigures* const run = run_of(sides, figures, name);
  return run == nullptr ? nullptr : &run->ms;
}

double median(const std::vector<double>& values) {
  return simulate::percentile(values, 50);
}

ForwardRatio make_ratio(const std::string& name, const std::vector<double>& baseline,
                        const std::vector<double>& planned) {
  ForwardRatio ratio{.name = name, .pairs = {}};
  std::vector<double> values;
  for (size_t n = 0; n < planned.size(); ++n) {
    ratio.pairs.push_back({baseline[n], planned[n]});
    values.push_back(baseline[n] / planned[n]);
  }
  ratio.value = median(values);
  return ratio;
}

}  // namespace

std::vector<ForwardRatio> ratios_of(std::span<const ForwardSide> sides,
                                    const ForwardBenchFigures& figures) {
  const std::vector<double>& planned = figures.runs[0].ms;
  std::vector<ForwardRatio> ratios;
  for (const auto& [side, name] : kNamedRatios) {
    if (const auto* const ms = times_of(sides, figures, side)) {
      ratios.push_back(make_ratio(name, *ms, planned));
    }
  }
  const auto* const fixed = times_of(sides, figures, "fixed");
  const auto* const ungated = times_of(sides, figures, "ungated");
  if (fixed != nullptr && ungated != nullptr) {
    const auto& better = median(*fixed) <= median(*ungated) ? *fixed : *ungated;
    ratios.push_back(make_ratio("gate_ratio", better, planned));
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
  const bool fixed_leads = median(fixed->ms) <= median(ungated->ms);
  // Without replicas both may be one plan.
  if (plan.num_replicas() == 0 && (fixed_leads || !is_ungated)) {
    return fixed_leads ? "fixed, the better one" : "fixed, not the better one";
  }
  if (!is_ungated) return "of its own";
  return fixed_leads ? "ungated, not the better one" : "ungated, the better one";
}

std::optional<HiddenFraction> hidden_of(std::span<const ForwardSide> sides,
                                        const ForwardBenchFigures& figures) {
  const std::vector<double>& planned = figures.runs[0].ms;
  const std::vector<double>* const resident = times_of(sides, figures, "resident");
  const std::vector<double>* const staged = times_of(sides, figures, "staged");
  if (resident == nullptr || staged == nullptr) return std::nullopt;
  if (figures.runs[0].plan.header().num_copies == 0) return std::nullopt;
  HiddenFraction hidden;
  std::vector<double> exposed, transfers;
  for (size_t n = 0; n < planned.size(); ++n) {
    exposed.push_back(planned[n] - (*resident)[n]);
    transfers.push_back((*staged)[n] - (*resident)[n]);
    hidden.triples.push_back({planned[n], (*resident)[n], transfers.back()});
  }
  const double transfer = median(transfers);
  if (transfer <= 0) return std::nullopt;
  hidden.value = 1 - median(exposed) / transfer;
  return hidden;
}

}  // namespace megaflux::cli
