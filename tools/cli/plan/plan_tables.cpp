#include "cli/plan/plan_tables.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/json_output.h"
#include "cli/options.h"
#include "cli/plan/owners_file.h"
#include "cli/text_format.h"
#include "megaflux/base/check.h"
#include "megaflux/trace/whole_file.h"

namespace megaflux::cli {
namespace {

constexpr int64_t kMaxBaseBlocks = 1'000'000'000;
constexpr int64_t kFullSpeed = 1024;
// Larger than any legal table; a wrong file must not be read to its end.
constexpr size_t kMaxValues = size_t{1} << 21;
constexpr uint64_t kMaxTextBytes = uint64_t{1} << 26;

std::string read_text(const std::string& option, const std::string& path) {
  try {
    const auto bytes = read_whole_file(path, kMaxTextBytes);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  } catch (const Error& error) {
    throw Error(error.code(), option + ": " + error.what());
  }
}

std::vector<int64_t> read_integers(const std::string& option, const std::string& path,
                                   Limits limits) {
  return parse_table(option + ": " + path, read_text(option, path), limits);
}

// Exactly `count` of them.
std::vector<int64_t> parse_row(const std::string& where, std::string_view text, Limits limits,
                               size_t count) {
  std::vector<int64_t> values = parse_table(where, text, limits);
  MF_CHECK(values.size() == count, where, ": ", values.size(), " values, ", count, " expected");
  return values;
}

std::vector<int64_t> read_row(const std::string& option, const std::string& path, Limits limits,
                              size_t count) {
  return parse_row(option + ": " + path, read_text(option, path), limits, count);
}

std::vector<int32_t> read_table(const std::string& option, const std::string& path, Limits limits,
                                size_t count) {
  const std::vector<int64_t> values = read_row(option, path, limits, count);
  return {values.begin(), values.end()};
}

struct MachineField {
  const char* key;
  int64_t MachineModel::*value;
};
constexpr MachineField kMachineFields[] = {{"gflops", &MachineModel::gflops},
                                           {"link_mb_per_s", &MachineModel::link_mb_per_s},
                                           {"send_mb_per_s", &MachineModel::send_mb_per_s},
                                           {"plan_ns", &MachineModel::plan_ns},
                                           {"pre_gate_ns", &MachineModel::pre_gate_ns},
                                           {"copy_latency_ns", &MachineModel::copy_latency_ns},
                                           {"round_ns", &MachineModel::round_ns}};

// A value of the file in a message; what holds other values is not spelt out, however deep it is.
std::string shown(const nlohmann::json& value) {
  return value.is_structured() ? value.type_name() : value.dump();
}

MachineModel machine_of(const nlohmann::json& fields, const std::string& path) {
  MF_CHECK(fields.is_object(), "machine: ", path, " holds no JSON object");
  MachineModel machine;
  machine.name = std::filesystem::path(path).stem().string();
  for (const auto& [key, value] : fields.items()) {
    if (key == "name") {
      MF_CHECK(value.is_string(), "machine: ", path, ": name: ", shown(value), " is no text");
      machine.name = value.get<std::string>();
      continue;
    }
    const auto* const field = std::ranges::find(kMachineFields, key, &MachineField::key);
    MF_CHECK(field != std::end(kMachineFields), "machine: ", path, ": '", printable(key),
             "' is unknown, one of name|gflops|link_mb_per_s|send_mb_per_s|plan_ns|pre_gate_ns|"
             "copy_latency_ns|round_ns expected");
    MF_CHECK(value.is_number_integer(), "machine: ", path, ": ", key, ": ", shown(value),
             " is no integer");
    MF_CHECK(!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX, "machine: ", path,
             ": ", key, ": ", shown(value), " is above ", INT64_MAX);
    machine.*field->value = value.get<int64_t>();
  }
  return machine;
}

}  // namespace

std::vector<int64_t> parse_table(const std::string& where, std::string_view text, Limits limits) {
  constexpr std::string_view kBetween = ", \t\r";
  std::vector<int64_t> values;
  for (size_t line_number = 1; !text.empty(); ++line_number) {
    const size_t line_end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, line_end);
    text.remove_prefix(std::min(line_end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    for (size_t begin = line.find_first_not_of(kBetween); begin != std::string_view::npos;
         begin = line.find_first_not_of(kBetween, begin)) {
      const size_t end = std::min(line.find_first_of(kBetween, begin), line.size());
      const std::string place = where + ", line " + std::to_string(line_number) + ", value " +
                                std::to_string(values.size());
      values.push_back(parse_integer(place, line.substr(begin, end - begin), limits));
      MF_CHECK(values.size() <= kMaxValues, where, ": more than ", kMaxValues, " values");
      begin = end;
    }
  }
  return values;
}

std::vector<std::vector<int32_t>> read_owners(const std::string& path, const OwnerTableSize& size,
                                              int32_t first_layer, int32_t end_layer) {
  const std::string text = read_text("--owners", path);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') {
    return parse_owners_json(text, path, size, {first_layer, end_layer});
  }
  const auto values =
      parse_row("--owners: " + path, text, {0, size.num_ranks - 1}, size.num_experts);
  return {static_cast<size_t>(end_layer - first_layer), {values.begin(), values.end()}};
}

std::vector<int32_t> read_base_blocks(const std::string& path, int32_t num_ranks) {
  return read_table("--base-blocks", path, {0, kMaxBaseBlocks}, static_cast<size_t>(num_ranks));
}

std::vector<uint16_t> read_speeds(const std::string& path, int32_t num_ranks) {
  const auto values = read_table("--speed", path, {1, kFullSpeed}, static_cast<size_t>(num_ranks));
  return {values.begin(), values.end()};
}

std::vector<int32_t> read_resident(const std::string& path, int32_t num_experts, int32_t num_ranks,
                                   int32_t replica_slots) {
  const size_t count = static_cast<size_t>(num_ranks) * static_cast<size_t>(replica_slots);
  return read_table("--resident", path, {-1, num_experts - 1}, count);
}

std::vector<int64_t> read_history(const std::string& option, const std::string& path,
                                  int32_t num_experts) {
  return read_row(option, path, {0, INT64_MAX / num_experts}, static_cast<size_t>(num_experts));
}

std::vector<int32_t> read_topology(const std::string& option, const std::string& path,
                                   int32_t num_ranks) {
  const std::vector<int64_t> values = read_integers(option, path, {0, num_ranks - 1});
  return {values.begin(), values.end()};
}

std::vector<int32_t> parse_domains(const std::string& text, int32_t num_ranks) {
  std::vector<int32_t> domain_of(static_cast<size_t>(num_ranks), -1);
  int32_t domain = 0;
  for (const IntegerRange& range : parse_ranges("--domains", text, {0, num_ranks - 1})) {
    for (int64_t rank = range.first; rank <= range.last; ++rank) {
      MF_CHECK(domain_of[rank] < 0, "--domains: rank ", rank, " is in two ranges of ", text);
      domain_of[rank] = domain;
    }
    ++domain;
  }
  const auto missing = std::find(domain_of.begin(), domain_of.end(), -1);
  MF_CHECK(missing == domain_of.end(), "--domains: ", text, " leaves out rank ",
           missing - domain_of.begin(), ", ranks 0 ... ", num_ranks - 1, " are expected");
  return domain_of;
}

std::vector<uint8_t> parse_inactive(const std::string& text, int32_t num_ranks) {
  std::vector<uint8_t> active(static_cast<size_t>(num_ranks), 1);
  for (const IntegerRange& range : parse_ranges("--inactive", text, {0, num_ranks - 1})) {
    std::fill(active.begin() + range.first, active.begin() + range.last + 1, uint8_t{0});
  }
  MF_CHECK(std::count(active.begin(), active.end(), 1) >= 1, "--inactive: ", text,
           " leaves none of ", num_ranks, " ranks active, at least 1 is needed");
  return active;
}

MachineModel parse_machine(std::string_view text, const std::string& path) {
  using nlohmann::json;
  std::set<std::string> keys;
  std::optional<std::string> repeated;
  const auto note_key = [&](int depth, json::parse_event_t event, const json& value) {
    if (event != json::parse_event_t::key || depth != 1) return true;
    const auto& key = value.get_ref<const std::string&>();
    if (!keys.insert(key).second) repeated = key;
    return true;
  };
  const json fields = json::parse(text, note_key, false);
  // The parser takes a zero byte for the end.
  MF_CHECK(!fields.is_discarded() && text.find('\0') == text.npos, "machine: ", path,
           " is no JSON");
  MF_CHECK(!repeated, "machine: ", path, ": '", printable(repeated.value_or("")),
           "' is there twice");
  const MachineModel machine = machine_of(fields, path);
  check_machine(machine, "machine: " + path);
  return machine;
}

nlohmann::ordered_json machine_json(const MachineModel& machine) {
  nlohmann::ordered_json fields = {{"name", machine.name}};
  for (const MachineField& field : kMachineFields) fields[field.key] = machine.*field.value;
  return fields;
}

std::string machine_text(const MachineModel& machine) {
  return json_text(machine_json(machine), 2) + "\n";
}

MachineModel read_machine(const std::string& name_or_path) {
  // The default of every command: a file that is called so must not change what they predict.
  if (name_or_path == MachineModel{}.name) return {};
  // Commands ask more than once, and all must find the same: a pipe is read once, and a file may
  // change meanwhile.
  static std::map<std::string, MachineModel> read;
  if (const auto found = read.find(name_or_path); found != read.end()) return found->second;
  std::error_code ignored;
  const bool is_file = std::filesystem::exists(name_or_path, ignored);
  try {
    if (!is_file) return machine_model(name_or_path);
    const std::string text = read_text("machine", name_or_path);
    return read.emplace(name_or_path, parse_machine(text, name_or_path)).first->second;
  } catch (const Error& error) {
    // The library speaks of the machine; here it is an option.
    throw Error(error.code(),
                std::string("--") + error.what() + (is_file ? "" : ", and there is no such file"));
  }
}

}  // namespace megaflux::cli
