#include "cli/options.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "megaflux/base/check.h"

namespace megaflux::cli {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

template <typename Number>
bool read_number(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

// A run of digits that no int64 holds is out of range rather than no number.
bool is_integer_text(std::string_view text) {
  if (!text.empty() && text.front() == '-') text.remove_prefix(1);
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

int64_t parse_integer(std::string_view argument, std::string_view text, Limits limits) {
  const std::string_view digits = trimmed(text);
  MF_CHECK(is_integer_text(digits), argument, ": '", text, "' is no integer, [", limits.least, ", ",
           limits.most, "] expected");
  int64_t value = 0;
  MF_CHECK(read_number(digits, value) && value >= limits.least && value <= limits.most, argument,
           ": ", digits, " is outside [", limits.least, ", ", limits.most, "]");
  return value;
}

std::vector<int64_t> parse_integers(std::string_view argument, std::string_view text,
                                    Limits limits) {
  std::vector<int64_t> values;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const int64_t value = parse_integer(argument, text.substr(begin, end - begin), limits);
    MF_CHECK(std::find(values.begin(), values.end(), value) == values.end(), argument, ": ", value,
             " stands twice in ", text);
    values.push_back(value);
    begin = end + 1;
  }
  return values;
}

std::vector<IntegerRange> parse_ranges(std::string_view argument, std::string_view text,
                                       Limits limits) {
  std::vector<IntegerRange> ranges;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const size_t dash = word.find('-', 1);
    IntegerRange range;
    range.first = parse_integer(argument, word.substr(0, dash), limits);
    range.last = dash == std::string_view::npos
                     ? range.first
                     : parse_integer(argument, word.substr(dash + 1), limits);
    MF_CHECK(range.first <= range.last, argument, ": ", word, " runs backwards, ", range.first,
             " must be at most ", range.last);
    ranges.push_back(range);
    begin = end + 1;
  }
  return ranges;
}

double parse_decimal(std::string_view argument, std::string_view text, double least, double most) {
  double value = 0;
  MF_CHECK(read_number(trimmed(text), value) && std::isfinite(value), argument, ": '", text,
           "' is no number, [", least, ", ", most, "] expected");
  MF_CHECK(value >= least && value <= most, argument, ": ", trimmed(text), " is outside [", least,
           ", ", most, "]");
  return value;
}

void check_choice(std::string_view argument, std::string_view text, const Choices& choices) {
  const bool is_known = std::find(choices.begin(), choices.end(), text) != choices.end();
  MF_CHECK(is_known, argument, ": '", text, "' is unknown, one of ", join_choices(choices),
           " expected");
}

std::string join_choices(const Choices& choices) {
  return fmt::format("{}", fmt::join(choices, "|"));
}

namespace {

CLI::Option* add_path(CLI::App& app, const std::string& name, std::string& path,
                      const std::string& help) {
  // Of "-o,--output" the first, which documents and all other errors use.
  const auto read = [argument = name.substr(0, name.find(',')), &path](const std::string& text) {
    MF_CHECK(!text.empty(), argument, ": '' names no file");
    path = text;
  };
  return app.add_option_function<std::string>(name, read, help);
}

}  // namespace

CLI::Option* add_integer(CLI::App& app, const std::string& name, Limits limits,
                         const std::string& help, const std::string& shown,
                         std::function<void(int64_t)> store) {
  const auto read = [name, limits, store = std::move(store)](const std::string& text) {
    store(parse_integer(name, text, limits));
  };
  return app.add_option_function<std::string>(name, read, help)->type_name("N")->default_str(shown);
}

CLI::Option* add_decimal(CLI::App& app, const std::string& name, double& value, double least,
                         double most, const std::string& help) {
  const auto read = [name, least, most, &value](const std::string& text) {
    value = parse_decimal(name, text, least, most);
  };
  return app.add_option_function<std::string>(name, read, help)
      ->type_name("X")
      ->default_str(fmt::format("{}", value));
}

CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& value,
                        const Choices& choices, const std::string& help) {
  const auto read = [name, choices, &value](const std::string& text) {
    check_choice(name, text, choices);
    value = text;
  };
  return app.add_option_function<std::string>(name, read, help)
      ->type_name(join_choices(choices))
      ->default_str(value);
}

CLI::Option* add_file(CLI::App& app, const std::string& name, std::string& path,
                      const std::string& help) {
  return add_path(app, name, path, help)->type_name("FILE");
}

CLI::Option* add_json(CLI::App& app, std::string& target) {
  return add_path(app, "--json", target,
                  "write JSON to FILE; with - standard output holds nothing but JSON")
      ->type_name("FILE|-");
}

}  // namespace megaflux::cli
