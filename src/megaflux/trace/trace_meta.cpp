#include "megaflux/trace/trace_meta.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "megaflux/base/check.h"
#include "megaflux/trace/trace_check.h"

namespace megaflux {
namespace {

using Json = nlohmann::json;

class MetaReader {
 public:
  MetaReader(const Json& object, std::string_view file_name)
      : object_(object), file_name_(file_name) {}

  int64_t whole_number(const char* key, const Json& value, int64_t high) const {
    MF_CHECK(value.is_number_integer(), file_name_, ": meta ", key, ": ", value.type_name(),
             " given, a whole number expected");
    // An unsigned number above INT64_MAX would wrap.
    const bool fits = !value.is_number_unsigned() ||
                      value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
    const int64_t number = fits ? value.get<int64_t>() : -1;
    MF_CHECK(number >= 0 && number <= high, file_name_, ": meta ", key, ": ", value.dump(),
             " is outside [0, ", high, "]");
    return number;
  }
  int32_t required_int(const char* key) const {
    MF_CHECK(object_.contains(key), file_name_, ": meta ", key, " is missing");
    return static_cast<int32_t>(
        whole_number(key, object_[key], std::numeric_limits<int32_t>::max()));
  }
  int64_t optional_int(const char* key, int64_t fallback, int64_t high) const {
    return object_.contains(key) ? whole_number(key, object_[key], high) : fallback;
  }
  std::string text(const char* key) const {
    if (!object_.contains(key)) return {};
    MF_CHECK(object_[key].is_string(), file_name_, ": meta ", key, ": ", object_[key].type_name(),
             " given, a text expected");
    return object_[key].get<std::string>();
  }
  bool flag(const char* key) const {
    if (!object_.contains(key)) return false;
    MF_CHECK(object_[key].is_boolean(), file_name_, ": meta ", key, ": ", object_[key].type_name(),
             " given, true or false expected");
    return object_[key].get<bool>();
  }
  std::vector<int32_t> layers() const {
    MF_CHECK(object_.contains("layers") && object_["layers"].is_array(), file_name_,
             ": meta layers: a list of model layer ids is missing");
    const Json& list = object_["layers"];
    MF_CHECK(list.size() <= static_cast<size_t>(kMaxTraceLayers), file_name_,
             ": meta layers: ", list.size(), " layers, at most ", kMaxTraceLayers);
    std::vector<int32_t> ids;
    for (const Json& value : list) {
      ids.push_back(
          static_cast<int32_t>(whole_number("layers", value, std::numeric_limits<int32_t>::max())));
    }
    return ids;
  }

 private:
  const Json& object_;
  std::string_view file_name_;
};

}  // namespace

TraceMeta parse_trace_meta(std::string_view json, std::string_view file_name) {
  const Json object = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  MF_CHECK(object.is_object(), file_name, ": array meta: no JSON object");
  const MetaReader reader(object, file_name);
  const std::string schema = reader.text("schema");
  MF_CHECK(schema == kTraceSchema, file_name, ": meta schema: '", schema, "', '", kTraceSchema,
           "' expected");
  TraceMeta meta{
      .num_experts = reader.required_int("num_experts"),
      .topk = reader.required_int("topk"),
      .num_ranks = static_cast<int32_t>(reader.optional_int("num_ranks", 1, 1 << 20)),
      .layers = reader.layers(),
      .model = reader.text("model"),
      .origin = reader.text("origin"),
      .licence = reader.text("licence"),
      .time_ordered = reader.flag("time_ordered"),
      .first_step = reader.optional_int("first_step", 0, std::numeric_limits<int64_t>::max())};
  // The shapes of all other arrays are judged by these numbers, so they are checked first.
  check_trace_meta(meta, file_name);
  return meta;
}

std::string encode_trace_meta(const TraceMeta& meta) {
  nlohmann::ordered_json object = {{"schema", kTraceSchema},
                                   {"num_experts", meta.num_experts},
                                   {"topk", meta.topk},
                                   {"num_ranks", meta.num_ranks},
                                   {"layers", meta.layers},
                                   {"model", meta.model},
                                   {"origin", meta.origin},
                                   {"licence", meta.licence},
                                   {"time_ordered", meta.time_ordered},
                                   {"first_step", meta.first_step}};
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace megaflux
