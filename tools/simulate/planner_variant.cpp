#include "simulate/planner_variant.h"

#include <algorithm>

#include "megaflux/base/check.h"

namespace megaflux::simulate {
namespace {

PlannerVariant parse_variant(std::string_view argument, std::string_view name) {
  std::string known = "all";
  for (const PlannerVariant& variant : all_variants()) {
    if (variant_name(variant) == name) return variant;
    known.append("|").append(variant_name(variant));
  }
  throw_error(ErrorCode::kBadInput, argument, ": '", name, "' is unknown, one of ", known,
              " expected");
}

}  // namespace

bool has_history(PlannerKind kind) {
  return kind == PlannerKind::kEplb || kind == PlannerKind::kLplb;
}

std::string variant_name(const PlannerVariant& variant) {
  const std::string name(planner_name(variant.kind));
  return has_history(variant.kind) && !variant.by_history ? name + "-exact" : name;
}

std::vector<PlannerVariant> all_variants() {
  std::vector<PlannerVariant> variants;
  for (const std::string_view name : planner_names()) {
    const PlannerKind kind = parse_planner(name);
    if (has_history(kind)) variants.push_back({.kind = kind, .by_history = true});
    variants.push_back({.kind = kind});
  }
  return variants;
}

std::vector<PlannerVariant> parse_variants(std::string_view argument, std::string_view text) {
  if (text == "all") return all_variants();
  std::vector<PlannerVariant> variants;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const PlannerVariant variant = parse_variant(argument, text.substr(begin, end - begin));
    MF_CHECK(std::find(variants.begin(), variants.end(), variant) == variants.end(), argument, ": ",
             variant_name(variant), " stands twice in ", text);
    variants.push_back(variant);
    begin = end + 1;
  }
  return variants;
}

}  // namespace megaflux::simulate
