#include "cli/plan/owners_file.h"

#include <nlohmann/json.hpp>

#include "megaflux/base/check.h"

namespace megaflux::cli {
namespace {

using nlohmann::json;

[[noreturn]] void reject(const std::string& path, const std::string& what) {
  throw_error(ErrorCode::kBadInput, "--owners: ", path, ": ", what);
}

int64_t integer_in(const json& object, const char* key, const std::string& path) {
  const auto found = object.find(key);
  if (found == object.end()) reject(path, std::string(key) + " is missing");
  if (!found->is_number_integer()) reject(path, std::string(key) + ": no integer");
  return found->get<int64_t>();
}

const json& array_in(const json& object, const char* key, const std::string& path) {
  const auto found = object.find(key);
  if (found == object.end()) reject(path, std::string(key) + " is missing");
  if (!found->is_array()) reject(path, std::string(key) + ": no array");
  return *found;
}

json parse_object(std::string_view text, const std::string& path) {
  json object = json::parse(text, nullptr, false);
  if (object.is_discarded() || !object.is_object()) reject(path, "no JSON object");
  const auto schema = object.find("schema");
  if (schema == object.end() || *schema != kOwnersSchema) {
    reject(path, "schema: " + std::string(kOwnersSchema) + " expected");
  }
  return object;
}

void check_size(const json& object, const char* key, int64_t expected, const std::string& path) {
  const int64_t value = integer_in(object, key, path);
  if (value != expected) {
    reject(path, std::string(key) + ": " + std::to_string(value) + ", " + std::to_string(expected) +
                     " expected");
  }
}

std::vector<int32_t> table_of(const json& layer, const OwnerTableSize& size,
                              const std::string& path) {
  const json& table = array_in(layer, "owner_of", path);
  const std::string where =
      "layer index " + std::to_string(integer_in(layer, "layer_index", path)) + ": ";
  if (table.size() != static_cast<size_t>(size.num_experts)) {
    reject(path, where + std::to_string(table.size()) + " owners, " +
                     std::to_string(size.num_experts) + " expected");
  }
  std::vector<int32_t> owner_of;
  for (const json& owner : table) {
    const bool is_rank = owner.is_number_integer() && owner >= 0 && owner < size.num_ranks;
    if (!is_rank) {
      // What holds other values is not spelt out, however deep it is.
      const std::string shown = owner.is_structured() ? owner.type_name() : owner.dump();
      reject(path, where + "expert " + std::to_string(owner_of.size()) + ": " + shown +
                       " is outside [0, " + std::to_string(size.num_ranks - 1) + "]");
    }
    owner_of.push_back(owner.get<int32_t>());
  }
  return owner_of;
}

}  // namespace

std::vector<std::vector<int32_t>> parse_owners_json(std::string_view text, const std::string& path,
                                                    const OwnerTableSize& size, LayerSpan layers) {
  const json object = parse_object(text, path);
  check_size(object, "num_experts", size.num_experts, path);
  check_size(object, "num_ranks", size.num_ranks, path);
  std::vector<std::vector<int32_t>> tables(layers.end - layers.first);
  for (const json& layer : array_in(object, "layers", path)) {
    if (!layer.is_object()) reject(path, "layers: an entry is no object");
    const int64_t layer_idx = integer_in(layer, "layer_index", path);
    if (layer_idx < layers.first || layer_idx >= layers.end) continue;
    std::vector<int32_t>& table = tables[layer_idx - layers.first];
    if (!table.empty()) reject(path, "layer index " + std::to_string(layer_idx) + " stands twice");
    table = table_of(layer, size, path);
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    if (tables[i].empty()) {
      reject(path, "no table for layer index " + std::to_string(layers.first + int64_t(i)));
    }
  }
  return tables;
}

}  // namespace megaflux::cli
