#include "megaflux/trace/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr int kMaxLinks = 40;  // as Linux follows

std::error_code last_error() {
  return {errno != 0 ? errno : EIO, std::generic_category()};
}

// True if another file can take the place of this one, or nothing is there yet.
bool is_replaceable(const fs::path& file) {
  std::error_code ignored;
  const fs::file_type type = fs::symlink_status(file, ignored).type();
  if (type == fs::file_type::not_found) return true;
  return type == fs::file_type::regular && access(file.parent_path().c_str(), W_OK) == 0;
}

// A new, empty file in that folder, or errno. Its name is short: one that is near the limit and
// longer than this is has room.
fs::path make_part(const fs::path& folder) {
  const std::string name = ".megaflux-" + std::to_string(getpid()) + "-";
  for (int number = 0;; ++number) {
    const fs::path part = folder / (name + std::to_string(number) + ".part");
    const int opened = open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (opened < 0 && errno == EEXIST) continue;
    if (opened < 0) return {};
    close(opened);
    return part;
  }
}

// Gives `part` owner, group and permissions of the old file, if there is one, before anything is in
// it, so that nobody reads what the old one did not show. False if this user may not: another owner
// or group under the same permissions would shut out those who had them, and a folder with the
// sticky bit lets nobody else put a file in the place of the owner's.
bool take_permissions(const fs::path& old_file, const fs::path& part) {
  struct stat old = {};
  if (stat(old_file.c_str(), &old) != 0) return true;
  // Owners first, since a change of them takes bits away.
  return chown(part.c_str(), old.st_uid, old.st_gid) == 0 && chmod(part.c_str(), old.st_mode) == 0;
}

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

StagedFile::StagedFile(const std::string& path, std::string_view where)
    : file_(linked_file(path)), where_(where) {}

StagedFile::StagedFile(StagedFile&& other) noexcept
    : file_(std::move(other.file_)),
      part_(std::exchange(other.part_, {})),
      where_(std::move(other.where_)) {}

StagedFile::~StagedFile() {
  remove_part();
}

void StagedFile::remove_part() {
  std::error_code ignored;
  if (!part_.empty()) fs::remove(part_, ignored);
  part_.clear();
}

void StagedFile::require(const std::error_code& error) const {
  MF_CHECK(!error, where_, ": cannot be written: ", error.message());
}

uint64_t StagedFile::write(const std::function<void(std::ostream&)>& fill) {
  if (is_replaceable(file_)) {
    part_ = make_part(file_.parent_path());
    if (part_.empty()) require(last_error());
    if (!take_permissions(file_, part_)) remove_part();
  }
  errno = 0;
  std::ofstream stream(part_.empty() ? file_ : part_, std::ios::binary | std::ios::trunc);
  if (!stream) require(last_error());
  fill(stream);
  stream.flush();
  const auto bytes = std::max<int64_t>(stream.tellp(), 0);
  stream.close();
  if (!stream) require(last_error());
  return static_cast<uint64_t>(bytes);
}

uint64_t StagedFile::write(std::span<const std::byte> bytes) {
  return write([bytes](std::ostream& out) {
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  });
}

void StagedFile::put_in_place() {
  if (part_.empty()) return;
  std::error_code error;
  fs::rename(part_, file_, error);
  // A file that is mounted alone keeps its place.
  if (error == std::errc::device_or_resource_busy) {
    fs::copy_file(part_, file_, fs::copy_options::overwrite_existing, error);
  } else if (!error) {
    part_.clear();
  }
  require(error);
}

uint64_t write_file_with(const std::string& path, std::string_view where,
                         const std::function<void(std::ostream&)>& fill) {
  StagedFile file(path, where);
  const uint64_t bytes = file.write(fill);
  file.put_in_place();
  return bytes;
}

void write_whole_file(const std::string& path, std::span<const std::byte> bytes) {
  StagedFile file(path, path);
  file.write(bytes);
  file.put_in_place();
}

}  // namespace megaflux
