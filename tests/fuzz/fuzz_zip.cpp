#include "fuzz/fuzz_harness.h"
#include "megaflux/trace/deflate.h"
#include "megaflux/trace/npz_file.h"
#include "megaflux/trace/zip_container.h"

namespace megaflux::fuzz {
namespace {

void read_entry(Bytes file, const ZipEntry& entry) {
  accept_refusal([&] {
    if (entry.method == ZipMethod::kStored) {
      require(stored_bytes(file, entry, "fuzz").size() == entry.size_bytes, "stored size");
    } else {
      require(inflate_entry(file, entry, "fuzz").size() == entry.size_bytes, "unpacked size");
    }
  });
}

}  // namespace

void fuzz_zip(Bytes bytes) {
  accept_refusal([&] {
    uint64_t total = 0;
    for (const ZipEntry& entry : parse_zip(bytes, "fuzz")) {
      require(entry.data_offset + entry.packed_bytes <= bytes.size(), "entries lie in the file");
      total += entry.size_bytes;
      read_entry(bytes, entry);
    }
    require(total <= kMaxZipBytes, "the sum of all sizes is limited");
  });
  accept_refusal([&] {
    const NpzFile file(bytes, "fuzz");
    for (const std::string& name : file.names()) {
      require(file.has(name), "names are there");
      accept_refusal([&] { (void)file.array(name); });
    }
  });
}

}  // namespace megaflux::fuzz
