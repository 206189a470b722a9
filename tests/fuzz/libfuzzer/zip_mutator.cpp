// Changes zip files from the inside. Bytes changed at random rarely get past the checksum of an
// entry, so this mutator mostly unpacks the file, changes one entry's bytes, and packs it again;
// otherwise the container itself is changed.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "megaflux/base/check.h"
#include "megaflux/base/rng.h"
#include "megaflux/trace/deflate.h"
#include "megaflux/trace/zip_container.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace megaflux::fuzz {
namespace {

std::vector<ZipInput> unpack(std::span<const std::byte> file) {
  std::vector<ZipInput> entries;
  for (const ZipEntry& entry : parse_zip(file, "mutated")) {
    if (entry.method == ZipMethod::kStored) {
      const auto bytes = stored_bytes(file, entry, "mutated");
      entries.push_back({entry.name, {bytes.begin(), bytes.end()}});
    } else if (entry.size_bytes <= size_t{1} << 20) {
      entries.push_back({entry.name, inflate_entry(file, entry, "mutated")});
    }
  }
  return entries;
}

void change(std::vector<std::byte>& bytes, size_t max_size) {
  const size_t size = bytes.size();
  bytes.resize(std::max(size, std::min(size + 64, max_size)));
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes.data()), size, bytes.size()));
}

// The changed file; empty if it could not be unpacked.
std::vector<std::byte> mutate_inside(std::span<const std::byte> file, size_t max_size,
                                     uint64_t choice) {
  try {
    auto entries = unpack(file);
    if (entries.empty()) return {};
    ZipInput& chosen = entries[choice / 8 % entries.size()];
    if (choice % 64 == 1) {
      std::swap(chosen.bytes, entries[choice / 64 % entries.size()].bytes);
    } else {
      change(chosen.bytes, max_size);
    }
    return choice % 4 == 2 ? encode_deflated_zip(entries) : encode_stored_zip(entries);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace
}  // namespace megaflux::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  using megaflux::fuzz::mutate_inside;
  const uint64_t choice = megaflux::Rng(seed).next();
  const std::span input(reinterpret_cast<const std::byte*>(data), size);
  std::vector<std::byte> changed;
  if (choice % 8 != 0 && size > 0) {
    changed = mutate_inside(input, max_size, choice);
    if (changed.empty()) {
      // Imports have a byte of settings behind the file.
      changed = mutate_inside(input.first(size - 1), max_size, choice);
      if (!changed.empty()) changed.push_back(input.back());
    }
  }
  if (changed.empty() || changed.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}
