#include "cli/bench/bench_record.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "cli/json_output.h"

namespace megaflux::cli {

std::string bench_line(const Figure& figure, const std::string& case_name,
                       const BenchSource& source) {
  const Json record = {
      {"schema", "megaflux.result/1"},
      {"figure", figure.name},
      {"value", figure.value},
      {"unit", figure.unit},
      {"case", case_name},
      {"samples", *figure.samples},
      {"clock", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
      {source.place_key, source.place},
      {"commit", source.commit},
      {"command", source.command}};
  return record.dump() + "\n";
}

std::string command_line(const std::vector<std::string>& arguments) {
  return fmt::format("megaflux {}", fmt::join(arguments.begin() + 1, arguments.end(), " "));
}

}  // namespace megaflux::cli
