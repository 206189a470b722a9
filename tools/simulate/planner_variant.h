// A row of a comparison: a planner, and what it gets to see.
//
// eplb and lplb place experts for a while. As users run them they see the loads of earlier steps
// ("eplb"); for comparison they also see the step itself ("eplb-exact"), with every expert's rows
// dealt to its copies in turns, which is the even split that EPLB's weights assume.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "megaflux/plan/planner.h"

namespace megaflux::simulate {

struct PlannerVariant {
  PlannerKind kind = PlannerKind::kMegaflux;
  bool by_history = false;
  friend bool operator==(const PlannerVariant&, const PlannerVariant&) = default;
};

// True for planners that can place by earlier loads: eplb and lplb.
bool has_history(PlannerKind kind);

// "megaflux", "eplb" (by history), "eplb-exact".
std::string variant_name(const PlannerVariant& variant);

// Every planner in the order of its kind, eplb and lplb in both variants.
std::vector<PlannerVariant> all_variants();

// "all", or names separated by commas, each once. Throws kBadInput naming `argument`, the name and
// what is known.
std::vector<PlannerVariant> parse_variants(std::string_view argument, std::string_view text);

}  // namespace megaflux::simulate
