#include "megaflux/trace/npz_file.h"

#include <algorithm>

#include "megaflux/base/check.h"
#include "megaflux/trace/deflate.h"

namespace megaflux {
namespace {

constexpr std::string_view kSuffix = ".npy";

}  // namespace

NpzFile::NpzFile(std::span<const std::byte> bytes, std::string_view file_name)
    : bytes_(bytes), file_name_(file_name), entries_(parse_zip(bytes, file_name)) {}

std::vector<std::string> NpzFile::names() const {
  std::vector<std::string> names;
  for (const ZipEntry& entry : entries_) {
    if (!entry.name.ends_with(kSuffix)) continue;
    names.push_back(entry.name.substr(0, entry.name.size() - kSuffix.size()));
  }
  return names;
}

std::string NpzFile::where(std::string_view array) const {
  return std::string(file_name_).append(": array ").append(array);
}

const ZipEntry* NpzFile::find(std::string_view array) const {
  const std::string name = std::string(array).append(kSuffix);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const ZipEntry& entry) { return entry.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

NpzArray NpzFile::array(std::string_view name) const {
  const ZipEntry* entry = find(name);
  MF_CHECK(entry != nullptr, where(name), " is missing");
  NpzArray array;
  std::span<const std::byte> npy;
  if (entry->method == ZipMethod::kStored) {
    npy = stored_bytes(bytes_, *entry, file_name_);
  } else {
    array.unpacked = inflate_entry(bytes_, *entry, file_name_);
    npy = array.unpacked;
  }
  array.view = parse_npy(npy, where(name));
  return array;
}

}  // namespace megaflux
