#include "convert/ultraep_format.h"

#include <limits>

#include "megaflux/base/check.h"
#include "megaflux/trace/csv_text.h"

namespace megaflux::convert {

std::string chunk_name(const std::string& trace, int64_t number) {
  std::string digits = std::to_string(number);
  digits.insert(0, digits.size() < 6 ? 6 - digits.size() : 0, '0');
  return trace + ".chunk" + digits + ".npz";
}

nlohmann::json parse_ultraep_json(std::string_view text, const std::string& name) {
  auto object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  MF_CHECK(object.is_object(), name, ": no JSON object");
  const auto schema = object.find("schema");
  const bool is_text = schema != object.end() && schema->is_string();
  MF_CHECK(is_text && schema->get_ref<const std::string&>() == kUltraEpSchema, name, ": schema '",
           is_text ? shown_value(schema->get_ref<const std::string&>()) : "", "', '",
           kUltraEpSchema, "' expected");
  return object;
}

int64_t ultraep_number(const nlohmann::json& object, const char* key, std::array<int64_t, 2> limits,
                       const std::string& name) {
  const auto found = object.find(key);
  MF_CHECK(found != object.end() && found->is_number_integer(), name, ": ", key,
           " is missing or no whole number");
  const bool fits = !found->is_number_unsigned() ||
                    found->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
  const int64_t value = fits ? found->get<int64_t>() : std::numeric_limits<int64_t>::max();
  MF_CHECK(value >= limits[0] && value <= limits[1], name, ": ", key, ": ", value, " is outside [",
           limits[0], ", ", limits[1], "]");
  return value;
}

}  // namespace megaflux::convert
