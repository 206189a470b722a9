// Codes and numbers of an explanation as sentences. A sentence says what is so, for any planner.
#pragma once

#include <string>
#include <vector>

#include "explain/counterfactual.h"
#include "explain/reasons.h"
#include "explain/step_facts.h"

namespace megaflux::cli {

// "1,205 blocks", or rows for plans in rows.
std::string amount(const explain::StepFacts& facts, int64_t count);

// The bound: what it is, and what domains and inactive ranks add to it.
std::vector<std::string> bound_sentences(const explain::StepFacts& facts);
std::string rule_sentence(const explain::StepFacts& facts, explain::StepRule rule);
std::string bound_sentence(const explain::StepFacts& facts, const explain::BoundAnswer& answer);
// "because ...": why an expert was or was not replicated.
std::string expert_sentence(const explain::StepFacts& facts, const explain::ExpertAnswer& answer);
// "with 3 slots a rank", and what then comes out.
std::string change_text(const explain::StepFacts& facts, const explain::Counterfactual& what);

}  // namespace megaflux::cli
