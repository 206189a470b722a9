// Deflated zip entries, the one place that knows libzip. A build without libzip (MF_HAVE_LIBZIP
// undefined) still reads and writes stored files; here it throws kUnsupported and says how to
// rewrite the file.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "megaflux/trace/zip_container.h"

namespace megaflux {

bool deflate_available();

// The unpacked bytes of a deflated entry of `file`; memory of entry.size_bytes (checked by
// parse_zip) is taken and no more. Throws kBadInput if the stream is damaged or its length differs
// from the directory's.
std::vector<std::byte> inflate_entry(std::span<const std::byte> file, const ZipEntry& entry,
                                     std::string_view file_name);

// A zip file of deflated entries, dated 1980-01-01.
std::vector<std::byte> encode_deflated_zip(std::span<const ZipInput> inputs);

}  // namespace megaflux
