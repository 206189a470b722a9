// Trace files: NAME.npz, or chunks NAME.000.npz, NAME.001.npz, ... (docs/trace_format.md). Files
// are untrusted: sizes are checked before memory is taken, and every error names file, array, value
// and limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megaflux/trace/trace.h"

namespace megaflux {

inline constexpr size_t kMaxMetaBytes = size_t{1} << 20;

enum class TracePacking : uint8_t {
  kStored,    // readable without libzip, and by memory mapping
  kDeflated,  // smaller; needs a build with libzip
};

// Reads one file; a path that does not exist but has chunks (`NAME.npz` with NAME.000.npz beside
// it) is read as all its chunks, joined. Throws kBadInput if the file cannot be read or is no valid
// trace.
Trace read_trace(const std::string& path);

// The same from memory; `file_name` opens every message.
Trace parse_trace(std::span<const std::byte> file, std::string_view file_name);

// Writes the file, or leaves what was there: the bytes go to a temporary file beside it, which is
// then renamed.
void write_trace(const std::string& path, const Trace& trace, TracePacking packing);

// The bytes that write_trace writes; equal traces give equal bytes.
std::vector<std::byte> encode_trace(const Trace& trace, TracePacking packing);

// Appends a chunk. Throws kBadInput unless `next` has the same meta, arrays and loads axis as
// `all`, and its first_step is the number of the step after the last one of `all`.
void append_chunk(TraceData& all, const TraceData& next, std::string_view file_name);

}  // namespace megaflux
