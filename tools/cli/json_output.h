// JSON results: one object with a "schema" member, to a file or to standard output.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace megaflux::cli {

// Members keep the order in which they are added.
using Json = nlohmann::ordered_json;

// True if standard output belongs to the JSON, so that reports for people stay away from it.
inline bool is_stdout(const std::string& target) {
  return target == "-";
}

// Throws kBadInput naming the option and the path if `path` can be no output file, without creating
// it. An empty path and "-" are always fine. Called before work that takes a while.
void check_output(const std::string& option, const std::string& path);

// Writes `value`, indented by two blanks, and a newline. An empty target writes nothing.
void write_json(const std::string& target, const Json& value);

// Of any strings: bytes that are no UTF-8, as names of files may have, become U+FFFD. `indent` -1:
// one line.
std::string json_text(const Json& value, int indent);

// Writes `text` as it is, with the same targets; a file is whole, or as it was before. Throws
// kBadInput naming option and path if not.
void write_text(const std::string& option, const std::string& target, const std::string& text);

}  // namespace megaflux::cli
