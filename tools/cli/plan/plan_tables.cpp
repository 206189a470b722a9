#include "cli/plan/plan_tables.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/options.h"
#include "cli/plan/owners_file.h"
#include "megaflux/base/check.h"

namespace megaflux::cli {
namespace {

constexpr int64_t kMaxBaseBlocks = 1'000'000'000;
constexpr int64_t kFullSpeed = 1024;
// Larger than any legal table; a wrong file must not be read to its end.
constexpr size_t kMaxValues = size_t{1} << 21;

std::ifstream open_input(const std::string& option, const std::string& path) {
  std::ifstream file(path);
  MF_CHECK(file.is_open(), option, ": ", path, " cannot be read: ", std::strerror(errno));
  std::error_code ignored;
  MF_CHECK(!std::filesystem::is_directory(path, ignored), option, ": ", path,
           " cannot be read: it is a directory");
  return file;
}

// All integers of a file.
std::vector<int64_t> read_integers(const std::string& option, const std::string& path,
                                   Limits limits) {
  std::ifstream file = open_input(option, path);
  std::vector<int64_t> values;
  std::string line;
  for (int line_number = 1; std::getline(file, line); ++line_number) {
    line.resize(std::min(line.find('#'), line.size()));
    std::replace(line.begin(), line.end(), ',', ' ');
    for (size_t begin = line.find_first_not_of(" \t\r"); begin != std::string::npos;) {
      const size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
      const std::string where = option + ": " + path + ", line " + std::to_string(line_number) +
                                ", value " + std::to_string(values.size());
      const std::string word = line.substr(begin, end - begin);
      values.push_back(parse_integer(where, word, limits));
      MF_CHECK(values.size() <= kMaxValues, option, ": ", path, ": more than ", kMaxValues,
               " values");
      begin = line.find_first_not_of(" \t\r", end);
    }
  }
  return values;
}

// Exactly `count` of them.
std::vector<int64_t> read_row(const std::string& option, const std::string& path, Limits limits,
                              size_t count) {
  std::vector<int64_t> values = read_integers(option, path, limits);
  MF_CHECK(values.size() == count, option, ": ", path, ": ", values.size(), " values, ", count,
           " expected");
  return values;
}

std::vector<int32_t> read_table(const std::string& option, const std::string& path, Limits limits,
                                size_t count) {
  const std::vector<int64_t> values = read_row(option, path, limits, count);
  return {values.begin(), values.end()};
}

int64_t* machine_field(MachineModel& machine, const std::string& key) {
  if (key == "gflops") return &machine.gflops;
  if (key == "link_mb_per_s") return &machine.link_mb_per_s;
  if (key == "plan_ns") return &machine.plan_ns;
  if (key == "pre_gate_ns") return &machine.pre_gate_ns;
  if (key == "copy_latency_ns") return &machine.copy_latency_ns;
  if (key == "round_ns") return &machine.round_ns;
  return nullptr;
}

MachineModel machine_of(const nlohmann::json& fields, const std::string& path) {
  MF_CHECK(fields.is_object(), "machine: ", path, " holds no JSON object");
  MachineModel machine;
  machine.name = std::filesystem::path(path).stem().string();
  for (const auto& [key, value] : fields.items()) {
    if (key == "name") {
      MF_CHECK(value.is_string(), "machine: ", path, ": name: ", value.dump(), " is no text");
      machine.name = value.get<std::string>();
      continue;
    }
    int64_t* field = machine_field(machine, key);
    MF_CHECK(field != nullptr, "machine: ", path, ": '", key,
             "' is unknown, one of name|gflops|link_mb_per_s|plan_ns|pre_gate_ns|copy_latency_ns|"
             "round_ns expected");
    MF_CHECK(value.is_number_integer(), "machine: ", path, ": ", key, ": ", value.dump(),
             " is no integer");
    *field = value.get<int64_t>();
  }
  return machine;
}

}  // namespace

std::vector<std::vector<int32_t>> read_owners(const std::string& path, const OwnerTableSize& size,
                                              int32_t first_layer, int32_t end_layer) {
  std::ifstream file = open_input("--owners", path);
  if ((file >> std::ws).peek() == '{') {
    return read_owners_json(path, size, first_layer, end_layer);
  }
  return {
      static_cast<size_t>(end_layer - first_layer),
      read_table("--owners", path, {0, size.num_ranks - 1}, static_cast<size_t>(size.num_experts))};
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

MachineModel read_machine(const std::string& name_or_path) {
  std::error_code ignored;
  const bool is_file = std::filesystem::exists(name_or_path, ignored);
  try {
    if (!is_file) return machine_model(name_or_path);
    std::ifstream file = open_input("machine", name_or_path);
    const auto fields = nlohmann::json::parse(file, nullptr, false);
    MF_CHECK(!fields.is_discarded(), "machine: ", name_or_path, " is no JSON");
    const MachineModel machine = machine_of(fields, name_or_path);
    check_machine(machine);
    return machine;
  } catch (const Error& error) {
    // The library speaks of the machine; here it is an option.
    throw Error(error.code(),
                std::string("--") + error.what() + (is_file ? "" : ", and there is no such file"));
  }
}

}  // namespace megaflux::cli
