#include "megaflux/trace/whole_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr int kMaxLinks = 40;  // as Linux follows

}  // namespace

std::vector<std::byte> read_whole_file(const std::string& path, uint64_t max_bytes) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  MF_CHECK(!error, path, ": cannot be read: ", error.message());
  MF_CHECK(!fs::is_directory(status), path, ": cannot be read: it is a directory");
  // Of a pipe or a device the size is not known beforehand.
  const uint64_t known = fs::is_regular_file(status) ? fs::file_size(path, error) : 0;
  MF_CHECK(!error, path, ": cannot be read: ", error.message());
  const auto refuse_above = [&](uint64_t size) {
    MF_CHECK(size <= max_bytes, path, ": ", size, " bytes, at most ", max_bytes,
             " are read; split the file into several");
  };
  refuse_above(known);
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  MF_CHECK(stream.good(), path, ": cannot be read: ", std::strerror(errno));
  std::vector<std::byte> bytes;
  bytes.reserve(known + 1);
  while (stream) {
    const size_t have = bytes.size();
    // One byte more than a file of known size has shows its end.
    bytes.resize(have <= known ? known + 1 : have + kPieceBytes);
    stream.read(reinterpret_cast<char*>(bytes.data() + have),
                static_cast<std::streamsize>(bytes.size() - have));
    bytes.resize(have + static_cast<size_t>(stream.gcount()));
    refuse_above(bytes.size());
  }
  MF_CHECK(!stream.bad(), path, ": cannot be read: ", std::strerror(errno));
  return bytes;
}

fs::path linked_file(const std::string& path) {
  std::error_code ignored;
  fs::path file = fs::absolute(path, ignored);
  for (int link = 0; link < kMaxLinks && fs::is_symlink(file, ignored); ++link) {
    const fs::path folder = fs::weakly_canonical(file.parent_path(), ignored);
    if (folder.string().starts_with("/proc/")) break;
    file = folder / fs::read_symlink(file, ignored);
  }
  return file;
}

uint64_t write_file_with(const std::string& path, std::string_view where,
                         const std::function<void(std::ostream&)>& fill) {
  const std::string part = path + ".part";
  errno = 0;
  std::ofstream stream(part, std::ios::binary | std::ios::trunc);
  if (stream) fill(stream);
  stream.close();
  const int reason = errno != 0 ? errno : EIO;
  std::error_code error;
  if (stream) {
    const uint64_t bytes = fs::file_size(part, error);
    if (!error) fs::rename(part, path, error);
    if (!error) return bytes;
  } else {
    error = std::error_code(reason, std::generic_category());
  }
  std::error_code ignored;
  fs::remove(part, ignored);
  throw_error(ErrorCode::kBadInput, where, ": cannot be written: ", error.message());
}

void write_whole_file(const std::string& path, std::span<const std::byte> bytes) {
  write_file_with(path, path, [bytes](std::ostream& out) {
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  });
}

}  // namespace megaflux
