#include "cli/distinct_files.h"

#include <filesystem>
#include <system_error>

#include "cli/json_output.h"
#include "megaflux/base/check.h"
#include "megaflux/trace/whole_file.h"

namespace megaflux::cli {
namespace {

// One name for every way to write the path of a file that need not be there.
std::filesystem::path place_of(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path file = linked_file(path);
  const std::filesystem::path place = std::filesystem::weakly_canonical(file, ignored);
  return place.empty() ? file : place;
}

// Also if it is there under another name, or not there yet.
bool is_same_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || is_stdout(a) || is_stdout(b)) return false;
  std::error_code ignored;
  if (std::filesystem::exists(a, ignored) && std::filesystem::exists(b, ignored)) {
    return std::filesystem::is_regular_file(a, ignored) &&
           std::filesystem::equivalent(a, b, ignored);
  }
  return place_of(a) == place_of(b);
}

}  // namespace

void check_distinct(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [argument, path] = outputs[i];
    for (const NamedFile& input : inputs) {
      MF_CHECK(!is_same_file(path, input.path), argument, ": ", path, " is the ", input.argument,
               " ", input.path, ", which would be overwritten");
    }
    for (size_t j = 0; j < i; ++j) {
      MF_CHECK(!is_same_file(path, outputs[j].path), argument, ": ", path, " is the file of ",
               outputs[j].argument, " too, each needs its own");
    }
  }
}

}  // namespace megaflux::cli
