#include "convert/named_arrays.h"

#include <algorithm>
#include <array>
#include <limits>

#include "convert/npy_recording.h"
#include "convert/physical_map.h"
#include "convert/sglang_records.h"
#include "megaflux/base/check.h"
#include "megaflux/trace/npz_file.h"

namespace megaflux::convert {
namespace {

enum class Content : uint8_t { kLogical, kPhysical, kEither, kIds, kLayerFirstIds, kMap };

struct ArrayName {
  std::string_view name;
  Content content;
  bool is_sglang;
  bool is_vllm;
};

constexpr std::array<ArrayName, 12> kNames = {{
    {"logical_count", Content::kLogical, true, false},
    {"global_physical_count", Content::kPhysical, true, false},
    {"topk_ids_of_layer", Content::kLayerFirstIds, true, false},
    {"last_physical_to_logical_map", Content::kMap, true, false},
    {"physical_to_logical_map", Content::kMap, true, true},
    {"expert_load_window", Content::kPhysical, false, true},
    {"expert_load_pass", Content::kPhysical, false, true},
    {"expert_load", Content::kEither, false, true},
    {"logical_expert_load", Content::kLogical, false, true},
    {"global_expert_load", Content::kLogical, false, true},
    {"routed_experts", Content::kIds, true, true},
    {"topk_ids", Content::kIds, true, true},
}};

const ArrayName* find_name(std::string_view name, Format format) {
  for (const ArrayName& entry : kNames) {
    if (entry.name != name) continue;
    if (format == Format::kSglang && !entry.is_sglang) return nullptr;
    if (format == Format::kVllm && !entry.is_vllm) return nullptr;
    return &entry;
  }
  return nullptr;
}

std::string known_names(Format format) {
  std::string text;
  for (const ArrayName& entry : kNames) {
    if (entry.content == Content::kMap || find_name(entry.name, format) == nullptr) continue;
    if (!text.empty()) text += '|';
    text += entry.name;
  }
  return text;
}

const NumberArray* find_map(const ArraysByName& arrays) {
  for (const auto& [name, array] : arrays) {
    const ArrayName* known = find_name(name, Format::kAuto);
    if (known != nullptr && known->content == Content::kMap) return &array;
  }
  return nullptr;
}

Recording logical_recording(NumberArray counts, const std::string& where) {
  const Kind kind = counts.shape.size() == 4 ? Kind::kCountsBySource : Kind::kCounts;
  Recording recording = counts_recording(std::move(counts), kind, where);
  drop_empty_steps(recording);
  return recording;
}

Recording of_array(const ArrayName& known, NumberArray array, const PhysicalMap& map,
                   const ImportSettings& settings, const std::string& where) {
  switch (known.content) {
    case Content::kLogical:
      return logical_recording(std::move(array), where);
    case Content::kPhysical:
      return logical_recording(logical_counts(std::move(array), map, where), where);
    case Content::kEither:
      if (!map.is_there()) return logical_recording(std::move(array), where);
      return logical_recording(logical_counts(std::move(array), map, where), where);
    case Content::kLayerFirstIds: {
      Recording recording = ids_recording(token_first_ids(array, map, where), settings, where);
      if (map.is_there()) recording.data.meta.num_experts = map.num_experts();
      return recording;
    }
    case Content::kIds:
    case Content::kMap:
      break;
  }
  ImportSettings topk = settings;
  topk.kind = Kind::kTopk;
  return array_recording(std::move(array), topk, where);
}

// The one array that a recording is made of.
Recording arrays_recording(ArraysByName arrays, const ImportSettings& settings,
                           const std::string& name) {
  const PhysicalMap map(find_map(arrays), settings.num_experts, name);
  const ArrayName* chosen = nullptr;
  for (const auto& [key, array] : arrays) {
    const ArrayName* known = find_name(key, settings.format);
    if (known == nullptr || known->content == Content::kMap) continue;
    MF_CHECK(chosen == nullptr, name, ": both ", chosen->name, " and ", known->name,
             " are there; keep the one to import");
    chosen = known;
  }
  MF_CHECK(chosen != nullptr, name, ": no array ", known_names(settings.format));
  const auto found = arrays.find(chosen->name);
  return of_array(*chosen, std::move(found->second), map, settings,
                  name + ": " + std::string(chosen->name));
}

}  // namespace

Recording json_recording(std::string_view text, const ImportSettings& settings,
                         const std::string& name) {
  JsonArrays arrays = parse_json_arrays(text, name, [&](std::string_view key) {
    return find_name(key, settings.format) != nullptr || is_record_number(key);
  });
  const auto bare = arrays.top.find("");
  if (bare != arrays.top.end()) return array_recording(std::move(bare->second), settings, name);
  if (arrays.records.empty()) return arrays_recording(std::move(arrays.top), settings, name);
  const PhysicalMap map(find_map(arrays.top), settings.num_experts, name);
  return records_recording(std::move(arrays.records), map, settings, name);
}

Recording npz_recording(std::span<const std::byte> bytes, const ImportSettings& settings,
                        const std::string& name) {
  const NpzFile file(bytes, name);
  ArraysByName arrays;
  for (const std::string& array : file.names()) {
    if (find_name(array, settings.format) == nullptr) continue;
    arrays.emplace(array, number_array(file.array(array).view, file.where(array)));
  }
  MF_CHECK(!arrays.empty() || !file.has("meta"), name,
           ": a trace of megaflux already; nothing to import");
  return arrays_recording(std::move(arrays), settings, name);
}

}  // namespace megaflux::convert
