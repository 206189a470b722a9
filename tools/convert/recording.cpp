#include "convert/recording.h"

#include <algorithm>
#include <numeric>

#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"

namespace megaflux::convert {
namespace {

// A counts array as [S, L, P, E]; axes that a kind leaves out have the extent 1.
std::vector<int64_t> full_shape(const NumberArray& counts, Kind kind, const std::string& name) {
  std::vector<int64_t> shape = counts.shape;
  if (kind == Kind::kCountsBySource) {
    MF_CHECK(shape.size() == 4, name, ": shape ", shape_text(shape),
             ", [step, layer, source, expert] expected");
    return shape;
  }
  MF_CHECK(shape.size() >= 1 && shape.size() <= 3, name, ": shape ", shape_text(shape),
           ", [step, layer, expert], [layer, expert] or [expert] expected");
  while (shape.size() < 3) shape.insert(shape.begin(), 1);
  shape.insert(shape.begin() + 2, 1);
  return shape;
}

// Slots up to the last one that any token uses.
int64_t used_slots(const NumberArray& ids, int64_t width) {
  int64_t used = 0;
  for (size_t i = 0; i < ids.values.size(); ++i) {
    if (ids.values[i] >= 0) used = std::max(used, static_cast<int64_t>(i) % width + 1);
  }
  return used;
}

// Steps of `step_tokens` tokens each, the last one shorter.
std::vector<int64_t> cut_steps(int64_t tokens, int32_t step_tokens) {
  if (step_tokens == 0) return {0, tokens};
  std::vector<int64_t> offsets = {0};
  while (offsets.back() < tokens) {
    offsets.push_back(std::min(tokens, offsets.back() + step_tokens));
  }
  return offsets;
}

void check_experts(TraceData& data, const ImportSettings& settings, const std::string& name) {
  int32_t& experts = data.meta.num_experts;
  if (experts == 0) {
    const auto largest = std::max_element(data.topk_ids.begin(), data.topk_ids.end());
    experts = largest == data.topk_ids.end() ? 1 : std::max<int32_t>(*largest + 1, 1);
    if (settings.num_experts == 0) return;
    MF_CHECK(settings.num_experts >= experts, name, ": expert ", experts - 1,
             " is there, --num-experts ", settings.num_experts, " given");
    experts = settings.num_experts;
    return;
  }
  MF_CHECK(settings.num_experts == 0 || settings.num_experts == experts, name, ": ", experts,
           " experts in the file, --num-experts ", settings.num_experts, " given");
}

void check_layers(TraceData& data, int64_t num_layers, const ImportSettings& settings,
                  const std::string& name) {
  MF_CHECK(num_layers >= 1 && num_layers <= kMaxTraceLayers, name, ": ", num_layers,
           " layers, [1, ", kMaxTraceLayers, "] expected");
  if (!settings.layers.empty()) data.meta.layers = settings.layers;
  if (data.meta.layers.empty()) {
    data.meta.layers.resize(num_layers);
    std::iota(data.meta.layers.begin(), data.meta.layers.end(), 0);
  }
  MF_CHECK(static_cast<int64_t>(data.meta.layers.size()) == num_layers, name, ": ", num_layers,
           " layers in the file, --layers names ", data.meta.layers.size());
}

// Layers before `meta.layers` names them, from the sizes of the arrays.
int64_t num_layers_of(const TraceData& data) {
  if (data.has_ids()) {
    const int64_t per_layer = data.step_offsets.back() * data.meta.topk;
    return per_layer == 0 ? 0 : static_cast<int64_t>(data.topk_ids.size()) / per_layer;
  }
  const int64_t per_layer = data.num_steps * data.load_ranks * data.meta.num_experts;
  return per_layer == 0 ? 0 : static_cast<int64_t>(data.loads.size()) / per_layer;
}

}  // namespace

Recording counts_recording(NumberArray counts, Kind kind, const std::string& name) {
  const std::vector<int64_t> shape = full_shape(counts, kind, name);
  MF_CHECK(shape[0] >= 1, name, ": no step in it");
  MF_CHECK(shape[2] >= 1 && shape[2] <= kMaxRanks, name, ": ", shape[2], " sources, [1, ",
           kMaxRanks, "] expected");
  MF_CHECK(shape[3] >= 1 && shape[3] <= kMaxExperts, name, ": ", shape[3],
           " experts on the last axis, [1, ", kMaxExperts, "] expected");
  Recording recording;
  TraceData& data = recording.data;
  data.meta.num_experts = static_cast<int32_t>(shape[3]);
  data.meta.num_ranks = static_cast<int32_t>(shape[2]);
  data.num_steps = shape[0];
  data.load_ranks = static_cast<int32_t>(shape[2]);
  data.loads = std::move(counts.values);
  return recording;
}

Recording ids_recording(NumberArray ids, const ImportSettings& settings, const std::string& name) {
  MF_CHECK(ids.shape.size() == 3, name, ": shape ", shape_text(ids.shape),
           ", ids [token, layer, slot] expected");
  const int64_t tokens = ids.shape[0];
  const int64_t width = ids.shape[2];
  for (size_t i = 0; i < ids.values.size(); ++i) {
    MF_CHECK(ids.values[i] >= -1 && ids.values[i] < kMaxExperts, name, ": token ",
             static_cast<int64_t>(i) / width / ids.shape[1], ": expert ", ids.values[i],
             " is outside [-1, ", kMaxExperts - 1, "]");
  }
  const int64_t used = ids.values.empty() ? 0 : used_slots(ids, width);
  const int64_t topk = settings.topk > 0 ? settings.topk : used;
  MF_CHECK(topk >= used && topk <= width, name, ": experts in ", used, " of ", width,
           " slots, --topk ", settings.topk, " given");
  MF_CHECK(topk >= 1 && topk <= kMaxTopk, name, ": ", topk, " slots with an expert, [1, ", kMaxTopk,
           "] expected");
  Recording recording;
  TraceData& data = recording.data;
  data.meta.topk = static_cast<int32_t>(topk);
  data.topk_ids.reserve(tokens * ids.shape[1] * topk);
  for (size_t i = 0; i < ids.values.size(); ++i) {
    if (static_cast<int64_t>(i) % width < topk) {
      data.topk_ids.push_back(static_cast<int16_t>(ids.values[i]));
    }
  }
  data.step_offsets = cut_steps(tokens, settings.step_tokens);
  data.num_steps = static_cast<int64_t>(data.step_offsets.size()) - 1;
  return recording;
}

void drop_empty_steps(Recording& recording) {
  TraceData& data = recording.data;
  const auto cell = static_cast<int64_t>(data.loads.size()) / data.num_steps;
  int64_t kept = 0;
  for (int64_t step = 0; step < data.num_steps; ++step) {
    const auto first = data.loads.begin() + step * cell;
    if (std::all_of(first, first + cell, [](int32_t rows) { return rows == 0; })) continue;
    std::copy(first, first + cell, data.loads.begin() + kept * cell);
    ++kept;
  }
  if (kept == 0 || kept == data.num_steps) return;
  recording.notes.push_back(std::to_string(data.num_steps - kept) + " of " +
                            std::to_string(data.num_steps) + " steps hold no row and are left out");
  data.loads.resize(kept * cell);
  data.num_steps = kept;
}

Trace finish_recording(Recording recording, const ImportSettings& settings,
                       const std::string& name) {
  TraceData& data = recording.data;
  const bool is_ids = settings.kind == Kind::kTopk;
  MF_CHECK(settings.kind == Kind::kAuto || is_ids == data.has_ids(), name, ": --kind ",
           is_ids ? "topk" : "counts", ", and the file holds ", is_ids ? "counts" : "ids");
  MF_CHECK(settings.step_tokens == 0 || data.has_ids(), name, ": --step-tokens ",
           settings.step_tokens, ", and the file holds counts, not ids");
  check_experts(data, settings, name);
  check_layers(data, num_layers_of(data), settings, name);
  if (settings.topk > 0) data.meta.topk = settings.topk;
  if (data.has_ids() && data.rank_offsets.empty()) {
    for (int64_t step = 0; step < data.num_steps; ++step) {
      data.rank_offsets.push_back(data.step_offsets[step]);
      data.rank_offsets.push_back(data.step_offsets[step + 1]);
    }
  }
  data.meta.model = settings.model;
  data.meta.origin = settings.origin;
  data.meta.licence = settings.licence;
  data.meta.time_ordered |= settings.is_time_ordered;
  return Trace(std::move(data), name);
}

}  // namespace megaflux::convert
