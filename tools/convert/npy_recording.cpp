#include "convert/npy_recording.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"

namespace megaflux::convert {
namespace {

bool has_equal_experts(std::span<const int32_t> slots) {
  std::array<int32_t, kMaxTopk> sorted;
  std::copy(slots.begin(), slots.end(), sorted.begin());
  const auto end = sorted.begin() + static_cast<int64_t>(slots.size());
  std::sort(sorted.begin(), end);
  const auto first = std::find_if(sorted.begin(), end, [](int32_t id) { return id >= 0; });
  return std::adjacent_find(first, end) != end;
}

bool may_be_ids(const NumberArray& array) {
  const int64_t slots = array.shape.back();
  if (slots > kMaxTopk || array.shape.size() < 2) return false;
  for (size_t i = 0; i < array.values.size(); i += static_cast<size_t>(slots)) {
    const auto token = std::span(array.values).subspan(i, slots);
    const bool is_in_range = std::all_of(token.begin(), token.end(),
                                         [](int32_t id) { return id >= -1 && id < kMaxExperts; });
    if (!is_in_range || has_equal_experts(token)) return false;
  }
  return true;
}

bool may_be_counts(const NumberArray& array) {
  const auto& shape = array.shape;
  if (shape.size() > 4 || shape.back() > kMaxExperts) return false;
  // [expert], [layer, expert], [step, layer, expert], [step, layer, source, expert]
  const size_t cell_axis = std::min<size_t>(shape.size() - 1, 2);
  const int64_t layers = cell_axis == 0 ? 1 : shape[cell_axis - 1];
  const int64_t cell = std::accumulate(shape.begin() + static_cast<int64_t>(cell_axis), shape.end(),
                                       int64_t{1}, std::multiplies<>());
  int64_t first_sum = 0;
  for (size_t i = 0; i * cell < array.values.size(); ++i) {
    const auto rows = std::span(array.values).subspan(i * cell, cell);
    if (std::any_of(rows.begin(), rows.end(), [](int32_t count) { return count < 0; }))
      return false;
    const int64_t sum = std::accumulate(rows.begin(), rows.end(), int64_t{0});
    if (static_cast<int64_t>(i) % layers == 0) first_sum = sum;
    if (sum != first_sum) return false;
  }
  return true;
}

// [sequence, step, layer, slot] -> [token, layer, slot]: step i holds one token of each sequence.
NumberArray decode_steps(const NumberArray& ids) {
  const int64_t sequences = ids.shape[0];
  const int64_t steps = ids.shape[1];
  const int64_t cell = ids.shape[2] * ids.shape[3];
  NumberArray tokens{.shape = {sequences * steps, ids.shape[2], ids.shape[3]}, .values = {}};
  tokens.values.reserve(ids.values.size());
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t sequence = 0; sequence < sequences; ++sequence) {
      const auto first = ids.values.begin() + (sequence * steps + step) * cell;
      tokens.values.insert(tokens.values.end(), first, first + cell);
    }
  }
  return tokens;
}

Recording topk_recording(NumberArray ids, ImportSettings settings, const std::string& name) {
  MF_CHECK(ids.shape.size() >= 2 && ids.shape.size() <= 4, name, ": shape ", shape_text(ids.shape),
           ", ids [token, layer, slot], [sequence, step, layer, slot] or [token, slot] expected");
  if (ids.shape.size() == 2) ids.shape.insert(ids.shape.begin() + 1, 1);
  if (ids.shape.size() == 3) return ids_recording(std::move(ids), settings, name);
  MF_CHECK(settings.step_tokens == 0, name, ": --step-tokens ", settings.step_tokens,
           " given, and the array has an axis of steps");
  MF_CHECK(ids.shape[0] <= kMaxElements, name, ": ", ids.shape[0], " sequences, at most ",
           kMaxElements);
  settings.step_tokens = static_cast<int32_t>(ids.shape[0]);
  Recording recording = ids_recording(decode_steps(ids), settings, name);
  recording.data.meta.time_ordered = true;
  return recording;
}

}  // namespace

Kind told_kind(const NumberArray& array, const std::string& name) {
  MF_CHECK(!array.values.empty() && !array.shape.empty(), name, ": shape ", shape_text(array.shape),
           " holds nothing");
  const bool is_ids = may_be_ids(array);
  const bool is_counts = may_be_counts(array);
  MF_CHECK(is_ids || is_counts, name, ": shape ", shape_text(array.shape),
           ": neither ids (an expert twice for one token, or out of range) nor counts (negative, "
           "or the layers of a step differ in their sum); say --kind counts|counts-by-source|topk");
  MF_CHECK(is_ids != is_counts, name, ": shape ", shape_text(array.shape),
           ": the numbers could be counts or ids of experts; say --kind "
           "counts|counts-by-source|topk");
  if (is_ids) return Kind::kTopk;
  return array.shape.size() == 4 ? Kind::kCountsBySource : Kind::kCounts;
}

Recording array_recording(NumberArray array, const ImportSettings& settings,
                          const std::string& name) {
  const Kind kind = settings.kind == Kind::kAuto ? told_kind(array, name) : settings.kind;
  if (kind == Kind::kTopk) return topk_recording(std::move(array), settings, name);
  return counts_recording(std::move(array), kind, name);
}

Recording npy_recording(std::span<const std::byte> bytes, const ImportSettings& settings,
                        const std::string& name) {
  return array_recording(number_array(parse_npy(bytes, name), name), settings, name);
}

}  // namespace megaflux::convert
