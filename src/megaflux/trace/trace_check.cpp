#include "megaflux/trace/trace_check.h"

#include <algorithm>
#include <limits>

#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"

namespace megaflux {
namespace {

constexpr int64_t kMaxRows = std::numeric_limits<int32_t>::max();

template <typename T>
void check_size(const std::vector<T>& array, int64_t expected, std::string_view array_name,
                std::string_view name) {
  MF_CHECK(array.empty() || static_cast<int64_t>(array.size()) == expected, name, ": array ",
           array_name, ": ", array.size(), " elements, ", expected, " expected");
}

void check_sizes(const TraceData& data, std::string_view name) {
  const TraceMeta& meta = data.meta;
  MF_CHECK(data.num_steps >= 1, name, ": no step in the trace");
  MF_CHECK(!data.loads.empty() || data.has_ids(), name, ": neither array loads nor topk_ids");
  const int64_t cells = data.num_steps * data.num_layers();
  MF_CHECK(data.loads.empty() || data.load_ranks == 1 || data.load_ranks == meta.num_ranks, name,
           ": array loads: ", data.load_ranks, " ranks, 1 or num_ranks = ", meta.num_ranks,
           " expected");
  check_size(data.loads, cells * data.load_ranks * meta.num_experts, "loads", name);
  check_size(data.realised_rows, cells * meta.num_ranks, "realised_rows", name);
  check_size(data.phase_us, cells * meta.num_ranks * 8, "phase_us", name);
  check_size(data.flags, cells, "flags", name);
  MF_CHECK(data.instances.size() % 6 == 0, name, ": array instances: rows of 6 expected");
  if (!data.has_ids()) {
    MF_CHECK(data.topk_ids.empty() && data.topk_weights.empty() && data.rank_offsets.empty(), name,
             ": topk_weights or offsets without topk_ids");
    return;
  }
  MF_CHECK(meta.topk >= 1, name, ": meta topk: 0 (not stated) is not possible with topk_ids");
  const int64_t ids_per_token = int64_t{data.num_layers()} * meta.topk;
  MF_CHECK(static_cast<int64_t>(data.topk_ids.size()) % ids_per_token == 0, name,
           ": array topk_ids: ", data.topk_ids.size(), " elements, rows of L x K = ", ids_per_token,
           " expected");
  check_size(data.step_offsets, data.num_steps + 1, "step_offsets", name);
  MF_CHECK(!data.rank_offsets.empty(), name, ": array rank_offsets is missing");
  check_size(data.rank_offsets, data.num_steps * (meta.num_ranks + 1), "rank_offsets", name);
  check_size(data.topk_weights, static_cast<int64_t>(data.topk_ids.size()), "topk_weights", name);
}

void check_loads(const TraceData& data, std::string_view name) {
  const int64_t experts = data.meta.num_experts;
  const int64_t cell = data.load_ranks * experts;
  int64_t sum = 0;
  for (size_t i = 0; i < data.loads.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t layer = at / cell % data.num_layers();
    const int64_t step = at / cell / data.num_layers();
    MF_CHECK(data.loads[i] >= 0, name, ": array loads: step ", step, ", layer idx ", layer,
             ", rank ", at / experts % data.load_ranks, ", expert ", at % experts, ": ",
             data.loads[i], " is negative");
    sum = at % cell == 0 ? data.loads[i] : sum + data.loads[i];
    MF_CHECK(sum <= kMaxRows, name, ": array loads: step ", step, ", layer idx ", layer, ": over ",
             kMaxRows, " rows, the limit of a step");
  }
}

void check_offsets(const TraceData& data, std::string_view name) {
  const int64_t tokens =
      static_cast<int64_t>(data.topk_ids.size()) / (data.num_layers() * data.meta.topk);
  const auto& steps = data.step_offsets;
  MF_CHECK(steps.front() == 0 && steps.back() == tokens, name, ": array step_offsets: runs from ",
           steps.front(), " to ", steps.back(), ", 0 to ", tokens, " tokens expected");
  for (int64_t s = 0; s < data.num_steps; ++s) {
    MF_CHECK(steps[s] <= steps[s + 1], name, ": array step_offsets: falls from ", steps[s], " to ",
             steps[s + 1], " at step ", s);
  }
  const int64_t max_tokens = kMaxRows / data.meta.topk;
  for (int64_t s = 0; s < data.num_steps; ++s) {
    MF_CHECK(steps[s + 1] - steps[s] <= max_tokens, name, ": step ", s, ": ",
             steps[s + 1] - steps[s], " tokens, at most ", max_tokens, " with topk ",
             data.meta.topk);
    const int64_t* ranks = &data.rank_offsets[s * (data.meta.num_ranks + 1)];
    MF_CHECK(ranks[0] == steps[s] && ranks[data.meta.num_ranks] == steps[s + 1], name,
             ": array rank_offsets: step ", s, " runs from ", ranks[0], " to ",
             ranks[data.meta.num_ranks], ", ", steps[s], " to ", steps[s + 1], " expected");
    MF_CHECK(std::is_sorted(ranks, ranks + data.meta.num_ranks + 1), name,
             ": array rank_offsets: falls inside step ", s);
  }
}

void check_ids(const TraceData& data, std::string_view name) {
  const int64_t topk = data.meta.topk;
  for (size_t i = 0; i < data.topk_ids.size(); ++i) {
    const int16_t id = data.topk_ids[i];
    if (id >= -1 && id < data.meta.num_experts) [[likely]]
      continue;
    const auto at = static_cast<int64_t>(i);
    throw_error(ErrorCode::kBadInput, name, ": array topk_ids: token ",
                at / topk / data.num_layers(), ", layer idx ", at / topk % data.num_layers(),
                ", k ", at % topk, ": ", id, " is outside [-1, ", data.meta.num_experts, ")");
  }
}

// Loads and ids of one step and layer; `counts` is [load_ranks, E] from the ids.
void compare_cell(const TraceData& data, int64_t step, int64_t layer,
                  std::span<const int32_t> counts, std::string_view name) {
  const int64_t cell = static_cast<int64_t>(counts.size());
  const int32_t* loads = &data.loads[(step * data.num_layers() + layer) * cell];
  for (int64_t i = 0; i < cell; ++i) {
    MF_CHECK(loads[i] == counts[i], name, ": arrays loads and topk_ids disagree: step ", step,
             ", layer idx ", layer, ", rank ", i / data.meta.num_experts, ", expert ",
             i % data.meta.num_experts, ": ", loads[i], " rows against ", counts[i], " ids");
  }
}

void check_agreement(const TraceData& data, std::string_view name) {
  const int64_t layers = data.num_layers();
  const int64_t topk = data.meta.topk;
  const int32_t ranks = data.meta.num_ranks;
  std::vector<int32_t> counts(static_cast<size_t>(data.load_ranks) * data.meta.num_experts);
  for (int64_t s = 0; s < data.num_steps; ++s) {
    for (int64_t l = 0; l < layers; ++l) {
      std::fill(counts.begin(), counts.end(), 0);
      for (int32_t p = 0; p < ranks; ++p) {
        const int64_t* cut = &data.rank_offsets[s * (ranks + 1) + p];
        const int64_t base = data.load_ranks == 1 ? 0 : int64_t{p} * data.meta.num_experts;
        for (int64_t t = cut[0]; t < cut[1]; ++t) {
          for (int64_t k = 0; k < topk; ++k) {
            const int16_t id = data.topk_ids[(t * layers + l) * topk + k];
            if (id >= 0) ++counts[base + id];
          }
        }
      }
      compare_cell(data, s, l, counts, name);
    }
  }
}

void check_instances(const TraceData& data, std::string_view name) {
  const TraceMeta& meta = data.meta;
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  const struct {
    const char* field;
    int64_t low, high;
  } fields[6] = {{"step", 0, data.num_steps - 1},
                 {"layer idx", 0, data.num_layers() - 1},
                 {"expert", 0, meta.num_experts - 1},
                 {"rank", 0, meta.num_ranks - 1},
                 {"slot", -1, 1023},
                 {"rows", 0, kMax}};
  for (size_t i = 0; i < data.instances.size(); ++i) {
    const auto& field = fields[i % 6];
    MF_CHECK(data.instances[i] >= field.low && data.instances[i] <= field.high, name,
             ": array instances: row ", i / 6, ", ", field.field, ": ", data.instances[i],
             " is outside [", field.low, ", ", field.high, "]");
  }
}

}  // namespace

void check_trace_meta(const TraceMeta& meta, std::string_view name) {
  const auto in_range = [&](std::string_view key, int64_t value, int64_t low, int64_t high) {
    MF_CHECK(value >= low && value <= high, name, ": meta ", key, ": ", value, " is outside [", low,
             ", ", high, "]");
  };
  in_range("num_experts", meta.num_experts, 1, kMaxExperts);
  in_range("topk", meta.topk, 0, kMaxTopk);
  in_range("num_ranks", meta.num_ranks, 1, kMaxRanks);
  in_range("first_step", meta.first_step, 0, int64_t{1} << 40);
  in_range("number of layers", static_cast<int64_t>(meta.layers.size()), 1, kMaxTraceLayers);
  std::vector<int32_t> sorted = meta.layers;
  std::sort(sorted.begin(), sorted.end());
  in_range("layers", sorted.front(), 0, 1 << 20);
  in_range("layers", sorted.back(), 0, 1 << 20);
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  MF_CHECK(twice == sorted.end(), name, ": meta layers: layer ", *twice, " stands twice");
}

void check_trace(const TraceData& data, std::string_view name) {
  check_trace_meta(data.meta, name);
  check_sizes(data, name);
  check_loads(data, name);
  check_instances(data, name);
  const auto rows = std::find_if(data.realised_rows.begin(), data.realised_rows.end(),
                                 [](int32_t value) { return value < 0; });
  MF_CHECK(rows == data.realised_rows.end(), name, ": array realised_rows: ", *rows,
           " is negative");
  if (!data.has_ids()) return;
  check_offsets(data, name);
  check_ids(data, name);
  if (!data.loads.empty()) check_agreement(data, name);
}

}  // namespace megaflux
