// `--rival KEY=VALUE`: the knobs of other systems' planners (plan/baselines/baseline_config.h), one
// key for each field. Fractions are written as decimals: llep.alpha=1.1.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "megaflux/plan/planner.h"

namespace megaflux::cli {

// KEY=VALUE as given, in this order; the last value of a key counts.
using RivalSettings = std::vector<std::string>;

void add_rival_options(CLI::App& app, RivalSettings& settings);

// Throws kBadInput if a setting is no KEY=VALUE, its key is unknown, or no planner of `planners`
// reads it: a knob that turns nothing is an error.
void check_rivals(const RivalSettings& settings, const Choices& planners);

// The knobs with their values, checked one by one; files (history, lplb.source_of) are read.
// `config` gives the dimensions, domains and active ranks that tables have to fit. Throws kBadInput
// naming --rival, key, value and limit.
BaselineConfig baselines_of(const RivalSettings& settings, const PlanConfig& config);

}  // namespace megaflux::cli
