// Whole files in and out of memory, within a limit and never half written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace megaflux {

// The bytes of a file or a pipe. Throws kBadInput, opening with `path`, if it cannot be read or
// holds more than `max_bytes`; memory grows with what was read, so nothing endless is taken in.
std::vector<std::byte> read_whole_file(const std::string& path, uint64_t max_bytes);

// Writes the file, or leaves what was there: the bytes go to `path`.part, which is then renamed.
// Throws kBadInput, opening with `path`, if that fails.
void write_whole_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace megaflux
