#include "cli/json_output.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "megaflux/base/check.h"
#include "megaflux/trace/whole_file.h"

namespace megaflux::cli {

void check_output(const std::string& option, const std::string& path) {
  if (path.empty() || is_stdout(path)) return;
  const std::filesystem::path file = linked_file(path);
  std::error_code ignored;
  MF_CHECK(!std::filesystem::is_directory(file, ignored), option, ": ", path,
           " is a folder, a file is expected");
  if (std::filesystem::exists(file, ignored)) {
    MF_CHECK(access(path.c_str(), W_OK) == 0, option, ": ", path, " cannot be written");
    return;
  }
  const std::filesystem::path folder = file.parent_path();
  MF_CHECK(std::filesystem::is_directory(folder, ignored), option, ": ", path, ": the folder ",
           folder.string(), " does not exist");
  MF_CHECK(access(folder.c_str(), W_OK) == 0, option, ": ", path, ": the folder ", folder.string(),
           " cannot be written");
}

std::string json_text(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

void write_json(const std::string& target, const Json& value) {
  if (target.empty()) return;
  write_text("--json", target, json_text(value, 2) + "\n");
}

void write_text(const std::string& option, const std::string& target, const std::string& text) {
  if (target.empty()) return;
  if (is_stdout(target)) {
    const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    MF_CHECK(is_written && std::fflush(stdout) == 0, option,
             ": standard output took less than the ", text.size(), " bytes of the result");
    return;
  }
  write_file_with(target, option + ": " + target, [&](std::ostream& out) { out << text; });
}

}  // namespace megaflux::cli
