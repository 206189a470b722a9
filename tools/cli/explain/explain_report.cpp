#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "cli/explain/explain_result.h"
#include "cli/explain/wording.h"
#include "cli/load_bars.h"
#include "cli/terminal.h"
#include "cli/text_format.h"

namespace megaflux::cli {
namespace {

using namespace megaflux::explain;

constexpr size_t kColumns = 100;
constexpr size_t kMaxMoves = 24;  // of the walk; more are summed up
constexpr size_t kMaxRanks = 8;   // over the bound
constexpr size_t kMaxUnreplicated = 5;
constexpr size_t kMaxSources = 16;

// Words in lines of kColumns, each after `indent`; the first goes on from `column`.
std::string wrapped(const std::string& text, size_t indent, size_t column) {
  std::string result;
  bool is_first = true;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!is_first && column + 1 + word.size() > kColumns) {
      result += '\n';
      result.append(indent, ' ');
      column = indent;
    } else if (!is_first) {
      result += ' ';
      ++column;
    }
    is_first = false;
    result += word;
    column += word.size();
    begin = end + 1;
  }
  return result;
}

void print_sentence(const std::string& text, size_t indent = 2) {
  fmt::print("{}{}\n", std::string(indent, ' '), wrapped(text, indent, indent));
}

class Report {
 public:
  explicit Report(const ExplainResult& result)
      : result_(result), facts_(result.facts), style_(style_of(STDOUT_FILENO)) {}

  void print() const {
    print_title();
    if (result_.expert >= 0) {
      print_expert();
    } else {
      print_step();
    }
    print_changes();
  }

 private:
  void head(const std::string& text) const {
    fmt::print("\n{}\n", paint(style_, Colour::kCyan, text));
  }
  void print_title() const;
  void print_step() const;
  void print_overloaded() const;
  void print_walk() const;
  void print_unreplicated() const;
  void print_expert() const;
  void print_instances() const;
  void print_changes() const;
  std::string owned_text(int32_t rank) const;

  const ExplainResult& result_;
  const StepFacts& facts_;
  const TextStyle style_;
};

void Report::print_title() const {
  const PlanConfig& config = facts_.config();
  fmt::print("{}\n",
             paint(style_, Colour::kBold,
                   fmt::format("{}, {} objective: {} experts on {}, {} each, blocks of {}",
                               planner_name(config.planner), objective_name(config.objective),
                               config.dims.num_experts, plural(config.dims.num_ranks, "rank"),
                               plural(config.dims.replica_slots, "slot"),
                               plural(facts_.block_rows, "row"))));
  const std::string sign(separator(style_));
  fmt::print("{}\n{} rows{}kappa {:.2f}{}imbalance {:.3f} {} {:.3f}\n", printable(result_.origin),
             count_text(facts_.input.loads.total_rows()), sign, facts_.kappa, sign,
             facts_.imbalance_fixed, arrow(style_), facts_.imbalance);
}

// The largest experts of a rank under fixed placement.
std::string Report::owned_text(int32_t rank) const {
  constexpr size_t kMost = 3;
  std::vector<int32_t> owned;
  for (size_t e = 0; e < facts_.experts.size(); ++e) {
    if (facts_.experts[e].owner_before == rank && facts_.experts[e].blocks > 0) {
      owned.push_back(static_cast<int32_t>(e));
    }
  }
  std::stable_sort(owned.begin(), owned.end(), [&](int32_t a, int32_t b) {
    return facts_.experts[a].blocks > facts_.experts[b].blocks;
  });
  std::string text;
  for (size_t i = 0; i < std::min(kMost, owned.size()); ++i) {
    text += fmt::format("{}{}: {}", i == 0 ? "" : ", ", owned[i],
                        count_text(facts_.experts[owned[i]].blocks));
  }
  if (owned.size() > kMost) text += fmt::format(" and {} more", owned.size() - kMost);
  return text;
}

void Report::print_overloaded() const {
  std::vector<int32_t> over;
  for (size_t r = 0; r < facts_.ranks.size(); ++r) {
    const auto rank = static_cast<int32_t>(r);
    if (!facts_.ranks[r].is_active) continue;
    if (facts_.ranks[r].fixed_finish > facts_.domain_of(rank).tau) over.push_back(rank);
  }
  if (over.empty()) return;
  std::stable_sort(over.begin(), over.end(), [&](int32_t a, int32_t b) {
    return facts_.ranks[a].fixed_finish > facts_.ranks[b].fixed_finish;
  });
  head(fmt::format("Over the bound with fixed placement: {}",
                   plural(static_cast<int64_t>(over.size()), "rank")));
  for (size_t i = 0; i < std::min(kMaxRanks, over.size()); ++i) {
    const RankFacts& rank = facts_.ranks[over[i]];
    fmt::print("  rank {:>4}  {:>9}, {:>8} over  its experts {}\n", over[i],
               count_text(rank.fixed_finish),
               count_text(rank.fixed_finish - facts_.domain_of(over[i]).tau), owned_text(over[i]));
  }
  if (over.size() > kMaxRanks) fmt::print("  and {} more\n", over.size() - kMaxRanks);
}

void Report::print_walk() const {
  if (facts_.walk.empty()) return;
  head(fmt::format("What moves, told from the rank furthest over the bound, in {}",
                   facts_.block_rows == 1 ? "rows" : "blocks"));
  for (size_t i = 0; i < std::min(kMaxMoves, facts_.walk.size()); ++i) {
    const Move& move = facts_.walk[i];
    fmt::print("  {:>8} of expert {:>4}  rank {:>4} {} {:<4}  leaves {:>8} and {:>8}{}\n",
               count_text(move.blocks), move.expert, move.from, arrow(style_), move.to,
               count_text(move.from_load), count_text(move.to_load),
               move.kind == MoveKind::kOwner ? "  with its owner"
               : move.is_resident            ? "  resident, nothing to copy"
                                             : "");
  }
  if (facts_.walk.size() > kMaxMoves) {
    fmt::print("  and {} more, all of them with --json\n", facts_.walk.size() - kMaxMoves);
  }
}

void Report::print_unreplicated() const {
  std::vector<int32_t> hot;
  for (size_t e = 0; e < facts_.experts.size(); ++e) {
    if (!facts_.experts[e].is_replicated() && facts_.experts[e].rows > 0) {
      hot.push_back(static_cast<int32_t>(e));
    }
  }
  if (hot.empty()) return;
  std::stable_sort(hot.begin(), hot.end(), [&](int32_t a, int32_t b) {
    return facts_.experts[a].rows > facts_.experts[b].rows;
  });
  hot.resize(std::min(hot.size(), kMaxUnreplicated));
  head("Largest experts that are not replicated");
  for (const int32_t e : hot) {
    const std::string label =
        fmt::format("  expert {:>4}, {:>9}: ", e, amount(facts_, facts_.experts[e].blocks));
    fmt::print("{}{}\n", paint(style_, Colour::kBold, label),
               wrapped(expert_sentence(facts_, result_.experts[e]), label.size(), label.size()));
  }
}

void Report::print_step() const {
  std::vector<int64_t> before, after;
  for (const RankFacts& rank : facts_.ranks) {
    before.push_back(rank.fixed_load);
    after.push_back(rank.load);
  }
  fmt::print("\n");
  print_load_bars(
      style_,
      {.unit = facts_.block_rows == 1 ? "rows" : "blocks", .before = before, .after = after});
  head("The bound and the decision");
  for (const std::string& sentence : bound_sentences(facts_)) print_sentence(sentence);
  print_sentence(rule_sentence(facts_, result_.rule));
  for (const BoundAnswer& answer : result_.bounds) print_sentence(bound_sentence(facts_, answer));
  print_overloaded();
  print_walk();
  print_unreplicated();
}

void Report::print_instances() const {
  const LoadTable& loads = facts_.input.loads;
  head("Who computes it");
  for (const Instance& instance : facts_.plan.instances_of(result_.expert)) {
    const int64_t rows = loads.rows_in_blocks(result_.expert, instance.first_block,
                                              instance.num_blocks, facts_.block_rows);
    fmt::print("  rank {:>4}  {:<9} {:>10}  {:>9} rows   the rank then has {}\n", instance.rank,
               instance.slot < 0 ? "owner" : fmt::format("slot {}", instance.slot),
               amount(facts_, instance.num_blocks), count_text(rows),
               amount(facts_, facts_.ranks[instance.rank].load));
  }
  if (!loads.has_sources()) return;
  std::vector<int32_t> sources(loads.num_ranks());
  std::iota(sources.begin(), sources.end(), 0);
  std::stable_sort(sources.begin(), sources.end(), [&](int32_t a, int32_t b) {
    return loads.rows(a, result_.expert) > loads.rows(b, result_.expert);
  });
  std::string text = "Rows by source rank: ";
  for (size_t i = 0; i < std::min(kMaxSources, sources.size()); ++i) {
    text += fmt::format("{}{}: {}", i == 0 ? "" : ", ", sources[i],
                        count_text(loads.rows(sources[i], result_.expert)));
  }
  print_sentence(text + (sources.size() > kMaxSources ? ", ..." : ""));
}

void Report::print_expert() const {
  const ExpertFacts& expert = facts_.experts[result_.expert];
  const auto total = static_cast<double>(std::max<int64_t>(1, facts_.input.loads.total_rows()));
  head(fmt::format("Expert {}", result_.expert));
  print_sentence(fmt::format(
      "{}{}, {:.2f} % of all, {:.2f} times the mean of {} experts. Owned by rank {}{}.",
      plural(expert.rows, "row"),
      facts_.block_rows == 1 ? "" : " in " + amount(facts_, expert.blocks),
      100 * static_cast<double>(expert.rows) / total,
      static_cast<double>(expert.rows) * static_cast<double>(facts_.experts.size()) / total,
      facts_.experts.size(), expert.owner,
      expert.owner == expert.owner_before ? ""
                                          : fmt::format(", before by {}", expert.owner_before)));
  const std::string verdict = expert.is_replicated() ? "Replicated " : "Not replicated ";
  fmt::print(
      "  {}{}\n", paint(style_, Colour::kBold, verdict),
      wrapped(expert_sentence(facts_, result_.experts[result_.expert]), 2, 2 + verdict.size()));
  print_instances();
  if (facts_.ranks[expert.owner].is_active) {
    head("The bound and the decision");
    for (const std::string& sentence : bound_sentences(facts_)) print_sentence(sentence);
    print_sentence(rule_sentence(facts_, result_.rule));
    print_sentence(bound_sentence(facts_, result_.bounds[facts_.ranks[expert.owner].domain]));
  }
}

void Report::print_changes() const {
  if (result_.slots.empty() && result_.other.empty()) return;
  head(fmt::format("What if                                                    {:>9} {:>9} {:>8}",
                   "slowest", "bound", "replicas"));
  fmt::print("  {:<56} {:>9} {:>9} {:>8}\n", "as planned", count_text(facts_.max_finish()),
             count_text(facts_.max_tau()), facts_.plan.num_replicas());
  for (const auto& list : {result_.slots, result_.other}) {
    for (const Counterfactual& what : list) {
      const std::string text = change_text(facts_, what);
      if (!what.has_plan) {
        fmt::print("  {:<56} no legal plan\n", text);
        continue;
      }
      fmt::print("  {:<56} {:>9} {:>9} {:>8}\n", text, count_text(what.max), count_text(what.tau),
                 what.replicas);
    }
  }
}

}  // namespace

void print_explanation(const ExplainResult& result) {
  Report(result).print();
}

}  // namespace megaflux::cli
