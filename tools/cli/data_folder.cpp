#include "cli/data_folder.h"

#include <filesystem>

#include "megaflux/base/check.h"

namespace megaflux::cli {

std::string data_folder() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed = program.parent_path().parent_path() / "share/megaflux/data";
  if (!error && fs::is_directory(installed, error)) return installed.string();
  if (fs::is_directory(MF_SOURCE_DATA_DIR, error)) return MF_SOURCE_DATA_DIR;
  throw_error(ErrorCode::kBadInput, "no recorded traces in ", installed.string(), " or ",
              MF_SOURCE_DATA_DIR, "; name one on the command line");
}

}  // namespace megaflux::cli
