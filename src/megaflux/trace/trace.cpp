#include "megaflux/trace/trace.h"

#include <algorithm>
#include <numeric>

#include "megaflux/base/check.h"
#include "megaflux/moe/draw_ids.h"
#include "megaflux/moe/limits.h"
#include "megaflux/moe/scale_counts.h"
#include "megaflux/trace/trace_check.h"

namespace megaflux {

std::vector<int64_t> even_cuts(int64_t first, int64_t last, int32_t num_parts) {
  const int64_t length = last - first;
  std::vector<int64_t> cuts = {first};
  cuts.reserve(num_parts + 1);
  for (int32_t p = 0; p < num_parts; ++p) {
    cuts.push_back(cuts.back() + length / num_parts + (p < length % num_parts));
  }
  return cuts;
}

Trace::Trace(TraceData data, std::string_view name) : data_(std::move(data)), name_(name) {
  check_trace(data_, name_);
}

void Trace::check_place(int64_t step, int32_t layer_idx, int32_t num_ranks) const {
  MF_CHECK(step >= 0 && step < num_steps(), name_, ": step: ", step, " is outside [0, ",
           num_steps(), ")");
  MF_CHECK(layer_idx >= 0 && layer_idx < num_layers(), name_, ": layer idx: ", layer_idx,
           " is outside [0, ", num_layers(), ")");
  MF_CHECK(num_ranks >= 1 && num_ranks <= kMaxRanks, "num_ranks: ", num_ranks, " is outside [1, ",
           kMaxRanks, "]");
}

int32_t Trace::layer_index(int32_t model_layer) const {
  const auto& layers = meta().layers;
  const auto found = std::find(layers.begin(), layers.end(), model_layer);
  if (found == layers.end()) {
    std::string known;
    for (const int32_t layer : layers) known.append(" ").append(std::to_string(layer));
    throw_error(ErrorCode::kBadInput, name_, ": no model layer ", model_layer, "; there are",
                known);
  }
  return static_cast<int32_t>(found - layers.begin());
}

int64_t Trace::num_tokens(int64_t step) const {
  check_place(step, 0, 1);
  if (has_ids()) return data_.step_offsets[step + 1] - data_.step_offsets[step];
  if (meta().topk == 0) return 0;
  const auto totals = step_totals(step, 0);
  return std::accumulate(totals.begin(), totals.end(), int64_t{0}) / meta().topk;
}

std::vector<int32_t> Trace::step_totals(int64_t step, int32_t layer_idx) const {
  const int32_t experts = meta().num_experts;
  const int64_t cell = int64_t{data_.load_ranks} * experts;
  const int32_t* rows = &data_.loads[(step * num_layers() + layer_idx) * cell];
  std::vector<int32_t> totals(experts, 0);
  for (int64_t i = 0; i < cell; ++i) totals[i % experts] += rows[i];
  return totals;
}

std::vector<int64_t> Trace::token_cuts(int64_t step, int32_t num_ranks) const {
  if (num_ranks != meta().num_ranks) {
    return even_cuts(data_.step_offsets[step], data_.step_offsets[step + 1], num_ranks);
  }
  const auto first = data_.rank_offsets.begin() + step * (num_ranks + 1);
  return {first, first + num_ranks + 1};
}

LoadTable Trace::loads(int64_t step, int32_t layer_idx, int32_t num_ranks) const {
  LoadTable table;
  read_loads(step, layer_idx, num_ranks, table);
  return table;
}

void Trace::read_loads(int64_t step, int32_t layer_idx, int32_t num_ranks, LoadTable& loads) const {
  check_place(step, layer_idx, num_ranks);
  const int32_t experts = meta().num_experts;
  if (!has_ids()) {
    const int64_t cell = int64_t{data_.load_ranks} * experts;
    const auto rows =
        std::span(data_.loads).subspan((step * num_layers() + layer_idx) * cell, cell);
    if (data_.load_ranks == num_ranks && num_ranks > 1)
      return loads.assign(num_ranks, experts, rows);
    if (data_.load_ranks == 1) return loads.assign_totals(num_ranks, rows);
    return loads.assign_totals(num_ranks, step_totals(step, layer_idx));
  }
  const int32_t topk = meta().topk;
  const auto cuts = token_cuts(step, num_ranks);
  std::vector<int32_t> rows(static_cast<size_t>(num_ranks) * experts, 0);
  for (int32_t p = 0; p < num_ranks; ++p) {
    for (int64_t t = cuts[p]; t < cuts[p + 1]; ++t) {
      const int16_t* ids = &data_.topk_ids[(t * num_layers() + layer_idx) * topk];
      for (int32_t k = 0; k < topk; ++k) {
        if (ids[k] >= 0) ++rows[int64_t{p} * experts + ids[k]];
      }
    }
  }
  loads.assign(num_ranks, experts, rows);
}

namespace {

// Tokens [first, last) of a step's ids and weights, both [T, K], as one rank's routing.
Routing cut_routing(std::span<const int32_t> ids, std::span<const float> weights, int32_t topk,
                    int64_t first, int64_t last) {
  const auto part = [&](auto values) {
    return values.subspan(first * topk, (last - first) * topk);
  };
  const auto own_ids = part(ids);
  const auto own_weights = part(weights);
  return {.num_tokens = static_cast<int32_t>(last - first),
          .topk = topk,
          .topk_ids = {own_ids.begin(), own_ids.end()},
          .topk_weights = {own_weights.begin(), own_weights.end()}};
}

}  // namespace

std::vector<Routing> Trace::routing(int64_t step, int32_t layer_idx, int32_t num_ranks,
                                    uint64_t seed) const {
  check_place(step, layer_idx, num_ranks);
  if (!has_ids()) return drawn_routing(step, layer_idx, num_ranks, seed);
  const int32_t topk = meta().topk;
  const auto cuts = token_cuts(step, num_ranks);
  std::vector<int32_t> ids;
  std::vector<float> weights;
  ids.reserve((cuts.back() - cuts.front()) * topk);
  for (int64_t t = cuts.front(); t < cuts.back(); ++t) {
    const int64_t at = (t * num_layers() + layer_idx) * topk;
    ids.insert(ids.end(), &data_.topk_ids[at], &data_.topk_ids[at] + topk);
    if (has_weights()) {
      weights.insert(weights.end(), &data_.topk_weights[at], &data_.topk_weights[at] + topk);
    }
  }
  if (!has_weights()) weights = draw_weights(ids, topk, seed);
  std::vector<Routing> parts;
  for (int32_t p = 0; p < num_ranks; ++p) {
    parts.push_back(
        cut_routing(ids, weights, topk, cuts[p] - cuts.front(), cuts[p + 1] - cuts.front()));
  }
  return parts;
}

std::vector<Routing> Trace::drawn_routing(int64_t step, int32_t layer_idx, int32_t num_ranks,
                                          uint64_t seed) const {
  const int32_t topk = meta().topk;
  MF_CHECK(topk >= 1, name_, ": meta topk: not stated, so no ids can be drawn from the loads");
  const bool has_sources = data_.load_ranks == num_ranks && num_ranks > 1;
  // With recorded sources each rank's tokens are drawn from its own counts, else all tokens
  // together.
  std::vector<Routing> parts;
  const LoadTable table = loads(step, layer_idx, has_sources ? num_ranks : 1);
  for (int32_t p = 0; p < table.num_ranks(); ++p) {
    const auto counts = table.rows_of_source(p);
    const int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    const auto tokens = static_cast<int32_t>(sum / topk);
    const auto exact = scale_counts(counts, int64_t{tokens} * topk, tokens);
    const auto ids = draw_ids(exact, tokens, topk, seed + static_cast<uint64_t>(p));
    const auto weights = draw_weights(ids, topk, seed + static_cast<uint64_t>(p));
    const auto cuts = even_cuts(0, tokens, has_sources ? 1 : num_ranks);
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      parts.push_back(cut_routing(ids, weights, topk, cuts[i], cuts[i + 1]));
    }
  }
  return parts;
}

}  // namespace megaflux
