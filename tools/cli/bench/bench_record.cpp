#include "cli/bench/bench_record.h"

#include <fmt/chrono.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "cli/json_output.h"
#include "cli/plan/plan_tables.h"
#include "megaflux/base/check.h"

namespace megaflux::cli {

namespace {

Json samples_of(const Figure& figure) {
  if (figure.triples != nullptr) return *figure.triples;
  if (figure.pairs != nullptr) return *figure.pairs;
  return *figure.samples;
}

// What a line has after the schema, if it has one.
void add_members(const Figure& figure, const std::string& case_name, const BenchSource& source,
                 Json& record) {
  record["figure"] = figure.name;
  record["value"] = figure.value;
  record["unit"] = figure.unit;
  record["case"] = case_name;
  record["samples"] = samples_of(figure);
  record["clock"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  record[source.place_key] = source.place;
  record["commit"] = source.commit;
  record["command"] = source.command;
  if (source.machine) record["machine"] = machine_json(*source.machine);
}

}  // namespace

std::string bench_line(const Figure& figure, const std::string& case_name,
                       const BenchSource& source) {
  Json record = {{"schema", "megaflux.result/1"}};
  add_members(figure, case_name, source, record);
  return json_text(record, -1) + "\n";
}

void append_result(const std::string& path, const Figure& figure, const std::string& case_name,
                   const BenchSource& source) {
  if (path.empty()) return;
  Json record;
  add_members(figure, case_name, source, record);
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << json_text(record, -1) << '\n' << std::flush;
  MF_CHECK(file.good(), "--out: ", path, " did not take the result: ", std::strerror(errno));
}

std::string command_line(const std::vector<std::string>& arguments) {
  std::string line = "megaflux";
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::filesystem::path path(arguments[i]);
    line += " " + (path.is_absolute() ? path.filename().string() : arguments[i]);
  }
  return line;
}

}  // namespace megaflux::cli
