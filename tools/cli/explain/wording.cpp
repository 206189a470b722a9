#include "cli/explain/wording.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/text_format.h"

namespace megaflux::cli {
namespace {

using namespace megaflux::explain;

std::string time_text(uint64_t ns) {
  return fmt::format("{:.1f} us", static_cast<double>(ns) / 1000);
}

std::string ranks_text(int32_t count) {
  return count == 1 ? "1 other rank" : fmt::format("{} other ranks", count);
}

// What a planner goes by where the load of an owner does not say it.
std::string rule_of_planner(PlannerKind planner) {
  switch (planner) {
    case PlannerKind::kEplb:
      return "each spare place goes to the expert with most rows a copy, whatever its owner has "
             "to do";
    case PlannerKind::kLplb:
      return "every rank's experts with most rows get one replica each, on ranks that a topology "
             "names";
    case PlannerKind::kBroadcast:
      return "the experts with most rows are copied to every rank that has rows for them, as long "
             "as its latency model expects a gain";
    case PlannerKind::kLlep:
      return "experts are placed by their rows, most first, and what its owner has no capacity "
             "for goes elsewhere";
    default:
      return "it moves what is above a target of its own";
  }
}

std::string copy_rule_text(const CopyRule& rule) {
  std::string text =
      fmt::format(" It has {} with {:.1f} rows each", plural(rule.copies, "place"), rule.share);
  if (rule.least_last > 1e300) return text + ", and there is no spare place.";
  return text + fmt::format("; the last expert to get another place had {:.1f} rows a copy then.",
                            rule.least_last);
}

std::string list_text(const StepFacts& facts, const std::vector<int32_t>& experts) {
  constexpr size_t kMost = 4;
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(kMost, experts.size()); ++i) {
    const ExpertFacts& expert = facts.experts[experts[i]];
    parts.push_back(fmt::format("{} of expert {}", amount(facts, expert.moved()), experts[i]));
  }
  if (experts.size() > kMost) parts.push_back(fmt::format("{} more", experts.size() - kMost));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string addition_text(const StepFacts& facts, const Addition& addition) {
  return fmt::format("{} of it on rank {} would let rank {} finish at {} and rank {} at {}",
                     amount(facts, addition.blocks), addition.rank,
                     facts.experts[addition.expert].owner, count_text(addition.owner_finish),
                     addition.rank, count_text(addition.host_finish));
}

// Why an expert is replicated.
std::string presence_text(const StepFacts& facts, const ExpertAnswer& answer) {
  const ExpertFacts& expert = facts.experts[answer.expert];
  const RankFacts& owner = facts.ranks[expert.owner];
  const int64_t tau = facts.domain_of(expert.owner).tau;
  std::string text;
  if (answer.reason == ExpertReason::kRelievesOwner) {
    text = fmt::format(
        "because its owner, rank {}, would finish at {} without replicas, {} after the bound of "
        "{}. {} of its {} go to {}; with all replicas rank {} finishes at {}.",
        expert.owner, count_text(owner.owned_finish), count_text(owner.owned_finish - tau),
        count_text(tau), count_text(expert.moved()), amount(facts, expert.blocks),
        plural(expert.replicas, "replica"), expert.owner, count_text(owner.finish));
  } else {
    text = fmt::format(
        "by the rule of {}: {}. Its owner, rank {}, would finish at {} without replicas, the "
        "bound is {}; {} of its {} go to {}.",
        planner_name(facts.config().planner), rule_of_planner(facts.config().planner), expert.owner,
        count_text(owner.owned_finish), count_text(tau), count_text(expert.moved()),
        amount(facts, expert.blocks), plural(expert.replicas, "replica"));
  }
  return answer.copy_rule ? text + copy_rule_text(*answer.copy_rule) : text;
}

// Reasons that lie with the step as a whole.
std::string step_reason_text(const StepFacts& facts, ExpertReason reason) {
  switch (reason) {
    case ExpertReason::kNoRows:
      return "because it has no rows in this step.";
    case ExpertReason::kFixedPlanner:
      return "because the planner fixed never replicates.";
    case ExpertReason::kFewRows:
      return rule_sentence(facts, StepRule::kFewRows);
    case ExpertReason::kPreGate:
      return rule_sentence(facts, StepRule::kPreGate);
    case ExpertReason::kGateFixed:
      return rule_sentence(facts, StepRule::kGateFixed);
    default:
      return "because there are no replica slots.";
  }
}

std::string overload_text(const StepFacts& facts, const ExpertAnswer& answer) {
  const ExpertFacts& expert = facts.experts[answer.expert];
  const DomainFacts& domain = facts.domain_of(expert.owner);
  const int64_t finish = facts.ranks[expert.owner].finish;
  const std::string late =
      fmt::format("its owner, rank {}, finishes at {}, {} after the bound", expert.owner,
                  count_text(finish), count_text(finish - domain.tau));
  switch (answer.reason) {
    case ExpertReason::kWithinSlack:
      return fmt::format("because {}, which the slack accepts (up to {}).", late,
                         count_text(domain.accepted));
    case ExpertReason::kOwnerNotSlowest:
      return fmt::format("although {}: rank {} of its domain finishes later still, at {}.", late,
                         answer.other_rank, count_text(facts.ranks[answer.other_rank].finish));
    case ExpertReason::kNoRoom:
      return fmt::format("although {}: none of {} could take {} and finish before that.", late,
                         ranks_text(answer.hosts.num_others), amount(facts, 1));
    case ExpertReason::kNoFreeSlot:
      return fmt::format(
          "although {}: {} could take {} and finish before that, and none of them has a free "
          "slot.",
          late, ranks_text(answer.hosts.num_with_room), amount(facts, 1));
    case ExpertReason::kTooFewBlocks:
      return fmt::format(
          "although {}: its owner has {} of it, a replica takes at least {}, and no size lets "
          "both finish before that.",
          late, amount(facts, expert.kept), amount(facts, expert.least_fresh));
    case ExpertReason::kLambdaNotPaid:
      return fmt::format(
          "although {}: a replica costs its owner {} (lambda), more than one would save.", late,
          amount(facts, facts.lambda));
    case ExpertReason::kPredictionNotLower:
      return fmt::format(
          "although {}: {}, and the layer is predicted to take {} then, against {} as planned.",
          late, addition_text(facts, *answer.addition), time_text(*answer.predicted_ns),
          time_text(*facts.report.predicted_ns));
    case ExpertReason::kTiedSlowest:
      return fmt::format("although {}: {}, but rank {} finishes at {} as well.", late,
                         addition_text(facts, *answer.addition), answer.other_rank,
                         count_text(facts.ranks[answer.other_rank].finish));
    default:
      return fmt::format("although {}: {}; {} left that.", late,
                         addition_text(facts, *answer.addition),
                         planner_name(facts.config().planner));
  }
}

std::string absence_text(const StepFacts& facts, const ExpertAnswer& answer) {
  const ExpertFacts& expert = facts.experts[answer.expert];
  switch (answer.reason) {
    case ExpertReason::kOwnerMoved:
      return fmt::format("because the whole expert went from rank {} to rank {}.",
                         expert.owner_before, expert.owner);
    case ExpertReason::kPlacedByRule:
      return fmt::format("by the rule of {}: {}.", planner_name(facts.config().planner),
                         rule_of_planner(facts.config().planner));
    case ExpertReason::kAloneInDomain:
      return fmt::format("because its owner, rank {}, is the only active rank of its domain.",
                         expert.owner);
    case ExpertReason::kTooSmall:
      return fmt::format("because it has {}, and a replica takes at least {}.",
                         amount(facts, expert.blocks), amount(facts, expert.least_fresh));
    case ExpertReason::kOwnerWithinBound:
      return fmt::format(
          "because its owner, rank {}, finishes at {} without any replica, not after the bound of "
          "{}.",
          expert.owner, count_text(facts.ranks[expert.owner].owned_finish),
          count_text(facts.domain_of(expert.owner).tau));
    case ExpertReason::kOwnerRelieved:
      return fmt::format(
          "because replicas of other experts relieve its owner, rank {}: {} leave it, and it "
          "finishes at {}, not after the bound of {}.",
          expert.owner, list_text(facts, answer.relieved_by),
          count_text(facts.ranks[expert.owner].finish),
          count_text(facts.domain_of(expert.owner).tau));
    case ExpertReason::kNoRows:
    case ExpertReason::kFixedPlanner:
    case ExpertReason::kFewRows:
    case ExpertReason::kPreGate:
    case ExpertReason::kGateFixed:
    case ExpertReason::kNoSlots:
      return step_reason_text(facts, answer.reason);
    default:
      return overload_text(facts, answer);
  }
}

// "The plan", or the domain where there are several.
std::string subject(const StepFacts& facts, const DomainFacts& domain) {
  return facts.domains.size() == 1 ? "The plan" : fmt::format("Domain {}", domain.id);
}

std::string move_left_text(const StepFacts& facts, const BoundAnswer& answer) {
  const DomainFacts& domain = facts.domains[answer.domain];
  std::string text =
      answer.shift
          ? fmt::format("{} of expert {} could move to its instance on rank {}",
                        amount(facts, answer.shift->blocks), answer.shift->expert, answer.shift->to)
          : fmt::format("a replica of expert {} with {} on rank {} would help",
                        answer.addition->expert, amount(facts, answer.addition->blocks),
                        answer.addition->rank);
  if (answer.num_slowest > 1) {
    text += fmt::format(", but {} ranks finish at {}", answer.num_slowest, count_text(domain.max));
  }
  return text + fmt::format("; {} left that", planner_name(facts.config().planner));
}

}  // namespace

std::string amount(const StepFacts& facts, int64_t count) {
  return plural(count, facts.block_rows == 1 ? "row" : "block");
}

std::vector<std::string> bound_sentences(const StepFacts& facts) {
  std::vector<std::string> sentences;
  for (const DomainFacts& domain : facts.domains) {
    const bool is_plain = std::all_of(domain.ranks.begin(), domain.ranks.end(), [&](int32_t rank) {
      return facts.ranks[rank].base == 0 && facts.ranks[rank].speed == 1024;
    });
    const std::string where =
        facts.domains.size() == 1 ? "" : fmt::format(" in domain {}", domain.id);
    sentences.push_back(
        fmt::format("No plan finishes before {} (tau){}: {} over {}{}.", count_text(domain.tau),
                    where, amount(facts, domain.total_blocks),
                    plural(static_cast<int64_t>(domain.ranks.size()), "active rank"),
                    is_plain ? "" : ", their other work and speeds included"));
  }
  const int64_t without = tau_without_domains(facts);
  if (facts.domains.size() > 1 && without < facts.max_tau()) {
    sentences.push_back(
        fmt::format("Replicas stay in the NVLink domain of their owner; if all ranks were one "
                    "domain, the bound would be {}.",
                    count_text(without)));
  }
  const int64_t with_all = tau_with_all_ranks(facts);
  if (with_all < facts.max_tau()) {
    sentences.push_back(fmt::format("With all ranks active it would be {}.", count_text(with_all)));
  }
  return sentences;
}

std::string rule_sentence(const StepFacts& facts, StepRule rule) {
  const PlanReport& report = facts.report;
  switch (rule) {
    case StepRule::kNoRows:
      return "The step has no rows: there is nothing to plan.";
    case StepRule::kFixedPlanner:
      return "The planner fixed leaves every block with its owner.";
    case StepRule::kFewRows:
      return fmt::format("The step has {}, fewer than --min-forward-rows {}: fixed placement.",
                         plural(facts.input.loads.total_rows(), "row"),
                         count_text(facts.config().min_forward_rows));
    case StepRule::kPreGate:
      return fmt::format(
          "The pre-gate kept fixed placement, predicted to take {}: to bring all ranks to the "
          "bound would save no more than planning ({}) and the best hidden copy cost.",
          time_text(*report.predicted_ns), time_text(facts.config().cost->plan_ns));
    case StepRule::kGateFixed:
      return fmt::format(
          "The gate kept fixed placement: nothing that was found is predicted to beat its {}.",
          time_text(*report.predicted_fixed_ns));
    case StepRule::kNoSlots:
      return "There are no replica slots: every block stays with its owner.";
    case StepRule::kBalanced:
      return "Fixed placement finishes at the bound already: nothing has to move.";
    case StepRule::kNothingGained:
      return fmt::format("{} found no replica that gains anything by its objective.",
                         planner_name(facts.config().planner));
    case StepRule::kReplicated:
      break;
  }
  std::string text =
      fmt::format("{}, {} of them to copy", plural(facts.plan.num_replicas(), "replica"),
                  count_text(facts.plan.header().num_copies));
  if (report.moved_owners > 0) {
    text +=
        fmt::format("; {} another owner", report.moved_owners == 1
                                              ? "1 expert gets"
                                              : fmt::format("{} experts get", report.moved_owners));
  }
  if (report.predicted_ns) {
    text += fmt::format("; predicted {}, fixed placement {}", time_text(*report.predicted_ns),
                        time_text(*report.predicted_fixed_ns));
  }
  return text + ".";
}

std::string bound_sentence(const StepFacts& facts, const BoundAnswer& answer) {
  const DomainFacts& domain = facts.domains[answer.domain];
  if (answer.reason == BoundReason::kAtBound) {
    return fmt::format("{} finishes at {}, the bound: none does better.", subject(facts, domain),
                       count_text(domain.max));
  }
  const std::string far =
      fmt::format("{} finishes at {}, {} over the bound of {}: rank {} is last",
                  subject(facts, domain), count_text(domain.max),
                  count_text(domain.max - domain.tau), count_text(domain.tau), domain.slowest);
  switch (answer.reason) {
    case BoundReason::kWithinSlack:
      return fmt::format("{}, within the slack (up to {}).", far, count_text(domain.accepted));
    case BoundReason::kNotSearched:
      return far + ". Fixed placement stays.";
    case BoundReason::kPredictedTime:
      return fmt::format("{}. The objective is predicted time, in which copies have a price: {}.",
                         far, time_text(*facts.report.predicted_ns));
    case BoundReason::kAloneInDomain:
      return far + ", the only active rank of its domain.";
    case BoundReason::kNoRoom:
      return fmt::format("{}, and none of {} could take {} and finish before it.", far,
                         ranks_text(answer.hosts.num_others), amount(facts, 1));
    case BoundReason::kNoFreeSlot:
      return fmt::format(
          "{}. {} could take {} and finish before it, and none of them has a free slot.", far,
          ranks_text(answer.hosts.num_with_room), amount(facts, 1));
    case BoundReason::kLeastSizes:
      return fmt::format(
          "{}. {} could take {} and finish before it, but no share of its experts that may be "
          "moved there lets both do so.",
          far, ranks_text(answer.hosts.num_with_room), amount(facts, 1));
    default:
      return fmt::format("{}: {}.", far, move_left_text(facts, answer));
  }
}

std::string expert_sentence(const StepFacts& facts, const ExpertAnswer& answer) {
  if (facts.experts[answer.expert].is_replicated()) return presence_text(facts, answer);
  const std::string text = absence_text(facts, answer);
  return answer.copy_rule ? text + copy_rule_text(*answer.copy_rule) : text;
}

std::string change_text(const StepFacts& facts, const Counterfactual& what) {
  const int32_t slots = facts.config().dims.replica_slots;
  switch (what.change) {
    case Change::kOneSlotMore:
      return fmt::format("with {} a rank", plural(slots + 1, "slot"));
    case Change::kOneSlotLess:
      return fmt::format("with {} a rank", plural(slots - 1, "slot"));
    case Change::kUndone:
      return fmt::format("this plan, expert {} back at its owner", what.expert);
    case Change::kBarred:
      return fmt::format("planned with expert {} never replicated", what.expert);
    case Change::kOneReplicaMore:
      return fmt::format("this plan, {} of expert {} on rank {} as well",
                         amount(facts, what.blocks), what.expert, what.rank);
    case Change::kOtherOwner:
      break;
  }
  return fmt::format("planned with expert {} owned by rank {}", what.expert, what.rank);
}

}  // namespace megaflux::cli
