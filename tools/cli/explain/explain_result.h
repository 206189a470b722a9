// What `megaflux explain` found, for people and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/json_output.h"
#include "explain/counterfactual.h"
#include "explain/reasons.h"
#include "explain/step_facts.h"

namespace megaflux::cli {

struct ExplainResult {
  std::string origin;  // file, layer and step
  explain::StepFacts facts;
  explain::StepRule rule = explain::StepRule::kNoRows;
  std::vector<explain::BoundAnswer> bounds;    // a domain each
  std::vector<explain::ExpertAnswer> experts;  // [E]
  std::vector<explain::Counterfactual> slots;
  int32_t expert = -1;                         // --expert; -1 = the step's story
  int32_t hottest = -1;                        // with most rows, -1 = there are no rows
  std::vector<explain::Counterfactual> other;  // of --expert, else of the hottest
};

// The object of schema megaflux.explain/1. Without a legal plan: planner, dimensions and orphans.
Json explain_json(const ExplainResult& result);
void print_explanation(const ExplainResult& result);

}  // namespace megaflux::cli
