// Options with limits: every value is checked as it is read, and an error names the option, the
// value and the limit, for example "--ranks: 0 is outside [1, 1024]".
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

// The parser's header is large; only the files that define options include it.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace megaflux::cli {

struct Limits {
  int64_t least = 0;
  int64_t most = 0;
};

// A named set of values, in the order in which help and errors list them.
using Choices = std::vector<std::string>;

// Throw kBadInput naming `argument`, `text` and the limits. Surrounding blanks are accepted.
int64_t parse_integer(std::string_view argument, std::string_view text, Limits limits);
double parse_decimal(std::string_view argument, std::string_view text, double least, double most);
void check_choice(std::string_view argument, std::string_view text, const Choices& choices);

// "8,16,64": at least one integer, none twice.
std::vector<int64_t> parse_integers(std::string_view argument, std::string_view text,
                                    Limits limits);

// "0-7,9": a single number is a range of one.
struct IntegerRange {
  int64_t first = 0;
  int64_t last = 0;
};
std::vector<IntegerRange> parse_ranges(std::string_view argument, std::string_view text,
                                       Limits limits);

// "a|b|c".
std::string join_choices(const Choices& choices);

// Calls `store` with the checked value; `shown` is the default that help prints.
CLI::Option* add_integer(CLI::App& app, const std::string& name, Limits limits,
                         const std::string& help, const std::string& shown,
                         std::function<void(int64_t)> store);

template <std::integral Int>
CLI::Option* add_integer(CLI::App& app, const std::string& name, Int& value, Limits limits,
                         const std::string& help) {
  return add_integer(app, name, limits, help, std::to_string(value),
                     [&value](int64_t checked) { value = static_cast<Int>(checked); });
}

CLI::Option* add_decimal(CLI::App& app, const std::string& name, double& value, double least,
                         double most, const std::string& help);

CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& value,
                        const Choices& choices, const std::string& help);

// A file, which has a name; whoever opens it reports what is wrong with it.
CLI::Option* add_file(CLI::App& app, const std::string& name, std::string& path,
                      const std::string& help);

// The JSON target of every command: a file, or - for standard output.
CLI::Option* add_json(CLI::App& app, std::string& target);

}  // namespace megaflux::cli
