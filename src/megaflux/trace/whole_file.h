// Whole files in and out of memory, within a limit and never half written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace megaflux {

// The bytes of a file or a pipe. Throws kBadInput, opening with `path`, if it cannot be read or
// holds more than `max_bytes`; memory grows with what was read, so nothing endless is taken in.
std::vector<std::byte> read_whole_file(const std::string& path, uint64_t max_bytes);

// The file that a write to `path` reaches, absolute: links are followed, also to a file that is not
// there yet. Those below /proc stay, as at the end of /dev/stdout: they lead to what is open, which
// may have no name. Example, in /data: "a" is /data/a, and /tmp/x if a is a link to ../tmp/x.
std::filesystem::path linked_file(const std::string& path);

// Writes the file, or leaves what was there: what `fill` writes goes to `path`.part, which is then
// renamed. Returns its bytes. Throws kBadInput, opening with `where`, if that fails.
uint64_t write_file_with(const std::string& path, std::string_view where,
                         const std::function<void(std::ostream&)>& fill);
// The same for bytes that are there already; errors open with `path`.
void write_whole_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace megaflux
