// The arrays of an .npz file by name: container, unpacking and .npy header in one place. Untrusted
// input.
//
// Example: a file with the entries meta.npy and loads.npy has the arrays "meta" and "loads".
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megaflux/trace/npy.h"
#include "megaflux/trace/zip_container.h"

namespace megaflux {

// One array; `view.payload` points into the file or into `unpacked`. Moving it keeps the view.
struct NpzArray {
  std::vector<std::byte> unpacked;
  NpyView view;
};

// Borrows the bytes of the file and its name.
class NpzFile {
 public:
  // Throws kBadInput as parse_zip does.
  NpzFile(std::span<const std::byte> bytes, std::string_view file_name);

  bool has(std::string_view array) const { return find(array) != nullptr; }
  // Names without ".npy"; entries of other names are no arrays and left out.
  std::vector<std::string> names() const;
  // What opens every message about an array: "law.npz: array loads".
  std::string where(std::string_view array) const;
  // Throws kBadInput naming file and array: not there, damaged, or no .npy array. Memory of the
  // array's own size is taken, and none if it is stored.
  NpzArray array(std::string_view name) const;

 private:
  const ZipEntry* find(std::string_view array) const;

  std::span<const std::byte> bytes_;
  std::string_view file_name_;
  std::vector<ZipEntry> entries_;
};

}  // namespace megaflux
