#include "megaflux/trace/deflate.h"

#ifdef MF_HAVE_LIBZIP
#include <zip.h>

#include <memory>
#endif

#include "megaflux/base/check.h"

namespace megaflux {

#ifdef MF_HAVE_LIBZIP
namespace {

// An archive over a memory source that outlives it by one reference; discarded unless closed by
// hand.
struct Archive {
  zip_source_t* source = nullptr;
  zip_t* zip = nullptr;
  Archive() = default;
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;
  ~Archive() {
    if (zip != nullptr) zip_discard(zip);
    if (source != nullptr) zip_source_free(source);
  }
  void open(const void* data, size_t size, int flags, std::string_view what) {
    zip_error_t error;
    zip_error_init(&error);
    source = zip_source_buffer_create(data, size, 0, &error);
    if (source != nullptr) {
      zip_source_keep(source);
      zip = zip_open_from_source(source, flags, &error);
      // On failure the reference that the archive would have taken is still ours.
      if (zip == nullptr) zip_source_free(source);
    }
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    MF_CHECK(zip != nullptr, what, ": libzip: ", reason);
  }
};

using Entry = std::unique_ptr<zip_file_t, int (*)(zip_file_t*)>;

void add_entry(Archive& archive, const ZipInput& input) {
  zip_source_t* source = zip_source_buffer(archive.zip, input.bytes.data(), input.bytes.size(), 0);
  MF_INVARIANT(source != nullptr, "libzip: ", zip_strerror(archive.zip));
  const zip_int64_t index = zip_file_add(archive.zip, input.name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) zip_source_free(source);
  MF_INVARIANT(index >= 0, "libzip: ", zip_strerror(archive.zip));
  const auto position = static_cast<zip_uint64_t>(index);
  constexpr zip_uint16_t kEpochDate = (1 << 5) | 1;
  MF_INVARIANT(zip_set_file_compression(archive.zip, position, ZIP_CM_DEFLATE, 9) == 0 &&
                   zip_file_set_dostime(archive.zip, position, 0, kEpochDate, 0) == 0,
               "libzip: ", zip_strerror(archive.zip));
}

std::vector<std::byte> read_all(zip_source_t* source) {
  zip_stat_t stat;
  MF_INVARIANT(zip_source_stat(source, &stat) == 0 && zip_source_open(source) == 0,
               "libzip: the written archive does not open");
  std::vector<std::byte> bytes(stat.size);
  const zip_int64_t got = zip_source_read(source, bytes.data(), bytes.size());
  zip_source_close(source);
  MF_INVARIANT(got == static_cast<zip_int64_t>(bytes.size()), "libzip: read ", got, " of ",
               bytes.size(), " bytes");
  return bytes;
}

}  // namespace

bool deflate_available() {
  return true;
}

std::vector<std::byte> inflate_entry(std::span<const std::byte> file, const ZipEntry& entry,
                                     std::string_view file_name) {
  Archive archive;
  archive.open(file.data(), file.size(), ZIP_RDONLY, file_name);
  const Entry opened(zip_fopen(archive.zip, entry.name.c_str(), 0), zip_fclose);
  MF_CHECK(opened != nullptr, file_name, ": entry ", entry.name, ": ", zip_strerror(archive.zip));
  std::vector<std::byte> bytes(entry.size_bytes);
  zip_uint64_t have = 0;
  while (have < bytes.size()) {
    const zip_int64_t got = zip_fread(opened.get(), bytes.data() + have, bytes.size() - have);
    MF_CHECK(got > 0, file_name, ": entry ", entry.name, ": damaged after ", have, " of ",
             bytes.size(), " bytes");
    have += static_cast<zip_uint64_t>(got);
  }
  // One byte more must not exist; this read is also what compares the checksum.
  std::byte beyond{};
  MF_CHECK(zip_fread(opened.get(), &beyond, 1) == 0, file_name, ": entry ", entry.name,
           ": damaged, or longer than the ", bytes.size(), " bytes it declares");
  return bytes;
}

std::vector<std::byte> encode_deflated_zip(std::span<const ZipInput> inputs) {
  Archive archive;
  archive.open(nullptr, 0, ZIP_CREATE | ZIP_TRUNCATE, "trace");
  for (const ZipInput& input : inputs) add_entry(archive, input);
  MF_INVARIANT(zip_close(archive.zip) == 0, "libzip: ", zip_strerror(archive.zip));
  archive.zip = nullptr;
  return read_all(archive.source);
}

#else

bool deflate_available() {
  return false;
}

std::vector<std::byte> inflate_entry(std::span<const std::byte>, const ZipEntry& entry,
                                     std::string_view file_name) {
  throw_error(ErrorCode::kUnsupported, file_name, ": entry ", entry.name,
              " is deflated and this build has no libzip; write the file with np.savez");
}

std::vector<std::byte> encode_deflated_zip(std::span<const ZipInput>) {
  throw_error(ErrorCode::kUnsupported, "trace: this build has no libzip; write it stored");
}

#endif

}  // namespace megaflux
