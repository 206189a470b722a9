#include <algorithm>

#include "cli/explain/explain_result.h"
#include "cli/explain/wording.h"
#include "cli/plan/plan_result.h"

namespace megaflux::cli {
namespace {

using namespace megaflux::explain;

Json hosts_json(const Hosts& hosts) {
  return {{"others", hosts.num_others},
          {"with_room", hosts.num_with_room},
          {"with_room_and_slot", hosts.num_with_room_and_slot}};
}

Json addition_json(const std::optional<Addition>& addition) {
  if (!addition) return nullptr;
  return {{"expert", addition->expert},
          {"rank", addition->rank},
          {"blocks", addition->blocks},
          {"owner_finish", addition->owner_finish},
          {"host_finish", addition->host_finish}};
}

Json domain_json(const StepFacts& facts, const BoundAnswer& answer) {
  const DomainFacts& domain = facts.domains[answer.domain];
  Json shift;
  if (answer.shift) {
    shift = {{"expert", answer.shift->expert},
             {"rank", answer.shift->to},
             {"blocks", answer.shift->blocks}};
  }
  return {{"domain", domain.id},
          {"ranks", domain.ranks},
          {"blocks", domain.total_blocks},
          {"tau", domain.tau},
          {"accepted", domain.accepted},
          {"max_fixed", domain.max_fixed},
          {"max", domain.max},
          {"slowest", domain.slowest},
          {"num_slowest", answer.num_slowest},
          {"reason", code_of(answer.reason)},
          {"hosts", hosts_json(answer.hosts)},
          {"shift", shift},
          {"addition", addition_json(answer.addition)},
          {"text", bound_sentence(facts, answer)}};
}

Json rank_json(const StepFacts& facts, int32_t rank) {
  const RankFacts& fact = facts.ranks[rank];
  const bool is_over = fact.is_active && fact.fixed_finish > facts.domain_of(rank).tau;
  return {{"rank", rank},
          {"domain", fact.is_active ? Json(facts.domain_of(rank).id) : Json()},
          {"load_fixed", fact.fixed_load},
          {"load", fact.load},
          {"finish_fixed", fact.fixed_finish},
          {"finish", fact.finish},
          {"is_over_bound", is_over},
          {"slots_used", fact.slots_used},
          {"replicas_out", fact.replicas_out}};
}

Json move_json(const Move& move) {
  return {{"kind", move.kind == MoveKind::kOwner ? "owner" : "replica"},
          {"expert", move.expert},
          {"from", move.from},
          {"to", move.to},
          {"blocks", move.blocks},
          {"rows", move.rows},
          {"from_load", move.from_load},
          {"to_load", move.to_load},
          {"resident", move.is_resident}};
}

Json expert_json(const StepFacts& facts, const ExpertAnswer& answer) {
  const ExpertFacts& expert = facts.experts[answer.expert];
  const auto total = static_cast<double>(facts.input.loads.total_rows());
  Json json = {
      {"expert", answer.expert},
      {"owner", expert.owner},
      {"owner_before", expert.owner_before},
      {"rows", expert.rows},
      {"share", total > 0 ? static_cast<double>(expert.rows) / total : 0.0},
      {"blocks", expert.blocks},
      {"kept_blocks", expert.kept},
      {"replicas", expert.replicas},
      {"reason", code_of(answer.reason)},
      {"relieved_by", answer.relieved_by},
      {"other_rank", answer.other_rank < 0 ? Json() : Json(answer.other_rank)},
      {"addition", addition_json(answer.addition)},
      {"predicted_us",
       answer.predicted_ns ? Json(static_cast<double>(*answer.predicted_ns) / 1000) : Json()}};
  if (answer.copy_rule) {
    const CopyRule& rule = *answer.copy_rule;
    json["places"] = {
        {"count", rule.copies},
        {"rows_each", rule.share},
        {"least_rows_for_another", rule.least_last > 1e300 ? Json() : Json(rule.least_last)}};
  }
  json["text"] =
      (expert.is_replicated() ? "replicated " : "not replicated ") + expert_sentence(facts, answer);
  return json;
}

Json change_json(const StepFacts& facts, const Counterfactual& what) {
  const auto if_planned = [&](const Json& value) { return what.has_plan ? value : Json(); };
  return {{"change", code_of(what.change)},
          {"expert", what.expert < 0 ? Json() : Json(what.expert)},
          {"rank", what.rank < 0 ? Json() : Json(what.rank)},
          {"blocks", what.blocks > 0 ? Json(what.blocks) : Json()},
          {"tau", if_planned(what.tau)},
          {"max", if_planned(what.max)},
          {"replicas", if_planned(what.replicas)},
          {"copies", if_planned(what.copies)},
          {"text", change_text(facts, what)}};
}

// --expert: where its rows come from, and who computes them.
Json detail_json(const ExplainResult& result) {
  if (result.expert < 0) return nullptr;
  const LoadTable& loads = result.facts.input.loads;
  Json json = expert_json(result.facts, result.experts[result.expert]);
  json["rows_by_source"] = nullptr;
  if (loads.has_sources()) {
    json["rows_by_source"] = Json::array();
    for (int32_t source = 0; source < loads.num_ranks(); ++source) {
      json["rows_by_source"].push_back(loads.rows(source, result.expert));
    }
  }
  json["instances"] = Json::array();
  for (const Json& instance : instances_json(result.facts.plan, loads)) {
    if (instance["expert"] == result.expert) json["instances"].push_back(instance);
  }
  return json;
}

Json microseconds_or_null(const std::optional<uint64_t>& ns) {
  return ns ? Json(static_cast<double>(*ns) / 1000) : Json();
}

void add_lists(const ExplainResult& result, Json& json) {
  const StepFacts& facts = result.facts;
  json["bound_text"] = bound_sentences(facts);
  for (const char* key : {"domains", "ranks", "walk", "experts", "what_if"}) {
    json[key] = Json::array();
  }
  for (const BoundAnswer& answer : result.bounds) {
    json["domains"].push_back(domain_json(facts, answer));
  }
  for (size_t rank = 0; rank < facts.ranks.size(); ++rank) {
    json["ranks"].push_back(rank_json(facts, static_cast<int32_t>(rank)));
  }
  for (const Move& move : facts.walk) json["walk"].push_back(move_json(move));
  for (const ExpertAnswer& answer : result.experts) {
    json["experts"].push_back(expert_json(facts, answer));
  }
  for (const auto& list : {result.slots, result.other}) {
    for (const Counterfactual& what : list) json["what_if"].push_back(change_json(facts, what));
  }
}

}  // namespace

Json explain_json(const ExplainResult& result) {
  const StepFacts& facts = result.facts;
  const PlanConfig& config = facts.config();
  Json json = {{"schema", "megaflux.explain/1"},
               {"origin", result.origin},
               {"planner", planner_name(config.planner)},
               {"objective", objective_name(config.objective)},
               {"num_experts", config.dims.num_experts},
               {"num_ranks", config.dims.num_ranks},
               {"replica_slots", config.dims.replica_slots},
               {"total_rows", facts.input.loads.total_rows()},
               {"orphans", facts.report.orphans}};
  if (!facts.has_plan()) return json;
  json["block_rows"] = facts.block_rows;
  json["slots_needed"] = facts.report.slots_needed;
  json["moved_owners"] = facts.report.moved_owners;
  json["kappa"] = facts.kappa;
  json["imbalance_fixed"] = facts.imbalance_fixed;
  json["imbalance"] = facts.imbalance;
  json["tau"] = facts.max_tau();
  json["max"] = facts.max_finish();
  json["lambda"] = facts.lambda;
  json["gate"] = {{"decision", gate_name(facts.report.gate)},
                  {"predicted_us", microseconds_or_null(facts.report.predicted_ns)},
                  {"predicted_fixed_us", microseconds_or_null(facts.report.predicted_fixed_ns)}};
  json["rule"] = code_of(result.rule);
  json["rule_text"] = rule_sentence(facts, result.rule);
  add_lists(result, json);
  json["expert"] = detail_json(result);
  return json;
}

}  // namespace megaflux::cli
