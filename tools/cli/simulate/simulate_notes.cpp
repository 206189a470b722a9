#include <fmt/format.h>

#include <algorithm>

#include "cli/simulate/simulate_result.h"
#include "cli/text_format.h"

namespace megaflux::cli {
namespace {

using simulate::Cell;
using simulate::SweepConfig;

bool has_variant(const SweepConfig& config, bool by_history) {
  return std::any_of(config.planners.begin(), config.planners.end(), [&](const auto& planner) {
    return simulate::has_history(planner.kind) && planner.by_history == by_history;
  });
}

// Where earlier loads come from, and why they may mean little.
std::vector<std::string> history_notes(const Trace& trace, const SweepConfig& config,
                                       const std::vector<Cell>& cells) {
  const int64_t interval = simulate::history_interval_of(trace, config);
  if (trace.num_steps() == 1) {
    return {
        "eplb and lplb: the trace has one step, so there are no earlier loads to place by; they "
        "keep an even placement, as before their first statistics. See eplb-exact and lplb-exact"};
  }
  const auto before = std::count_if(cells.begin(), cells.end(),
                                    [&](const Cell& cell) { return cell.step < interval; });
  std::vector<std::string> notes = {fmt::format(
      "eplb and lplb place anew {}, by the rows since the placement before, and pay for the "
      "weights that move then; until the first one the placement is even: {} of {} cells",
      interval == 1 ? "in every step" : fmt::format("every {} steps", count_text(interval)),
      count_text(before), count_text(static_cast<int64_t>(cells.size())))};
  if (!trace.meta().time_ordered) {
    notes.push_back(
        "eplb and lplb: the steps are not in time order, so earlier ones are other batches and no "
        "past; read these rows as placements made for other traffic");
  }
  return notes;
}

}  // namespace

std::vector<std::string> notes_on(const Trace& trace, const SweepConfig& config,
                                  const std::vector<Cell>& cells) {
  std::vector<std::string> notes;
  const TraceMeta& meta = trace.meta();
  if (config.model) {
    const simulate::ModelShape& model = *config.model;
    const bool has_other_experts = model.num_experts > 0 && model.num_experts != meta.num_experts;
    if (has_other_experts || (meta.topk > 0 && model.topk != meta.topk)) {
      notes.push_back(fmt::format(
          "{} has {}top {}, the trace {} experts and {}: only H and I are the model's", model.name,
          model.num_experts > 0 ? fmt::format("{} experts and ", model.num_experts) : "",
          model.topk, meta.num_experts,
          meta.topk > 0 ? fmt::format("top {}", meta.topk) : "no stated top"));
    }
  } else {
    notes.push_back("bytes and times need the layer: --model qwen3-30b, or --model H,I,K");
  }
  for (const int32_t num_ranks : config.ranks) {
    if (trace.loads(0, 0, num_ranks).has_sources()) continue;
    notes.push_back(fmt::format(
        "{} ranks: the trace does not say where rows come from, remote rows are unknown",
        num_ranks));
  }
  if (has_variant(config, true)) {
    for (std::string& note : history_notes(trace, config, cells)) notes.push_back(std::move(note));
  }
  if (has_variant(config, false)) {
    notes.push_back(
        "eplb-exact and lplb-exact place every step by its own loads; eplb's rows go to the copies "
        "in turns, which is the even split that it assumes. Owners move in every step, which no "
        "executor does");
  }
  return notes;
}

}  // namespace megaflux::cli
