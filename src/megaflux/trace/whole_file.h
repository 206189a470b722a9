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
#include <system_error>
#include <vector>

namespace megaflux {

// The bytes of a file or a pipe. Throws kBadInput, opening with `path`, if it cannot be read or
// holds more than `max_bytes`; memory grows with what was read, so nothing endless is taken in.
std::vector<std::byte> read_whole_file(const std::string& path, uint64_t max_bytes);

// The file that a write to `path` reaches, absolute: links are followed, also to a file that is not
// there yet. Those below /proc stay, as at the end of /dev/stdout: they lead to what is open, which
// may have no name. Example, in /data: "a" is /data/a, and /tmp/x if a is a link to ../tmp/x.
std::filesystem::path linked_file(const std::string& path);

// A file that is written first and put in its place later, or never: until then what was there
// before stays. What is written lies beside it, with its owner and permissions. What can have no
// other file put in its place is written directly: devices, pipes, what is open below /proc, a file
// in a folder that takes no other, and one whose owner and group this user cannot give.
//
//   StagedFile file("out.json", "--json: out.json");
//   file.write([&](std::ostream& out) { out << text; });
//   file.put_in_place();
//
// Errors are kBadInput and open with `where`.
class StagedFile {
 public:
  StagedFile(const std::string& path, std::string_view where);
  ~StagedFile();
  StagedFile(StagedFile&& other) noexcept;
  StagedFile& operator=(StagedFile&&) = delete;

  // Once; returns the bytes, 0 if they go where a stream has no place, as in a pipe.
  uint64_t write(const std::function<void(std::ostream&)>& fill);
  uint64_t write(std::span<const std::byte> bytes);
  void put_in_place();

 private:
  void require(const std::error_code& error) const;
  void remove_part();

  std::filesystem::path file_;
  std::filesystem::path part_;  // beside it; empty if there is none
  std::string where_;
};

// Writes the file, or leaves what was there, as a StagedFile. Returns its bytes.
uint64_t write_file_with(const std::string& path, std::string_view where,
                         const std::function<void(std::ostream&)>& fill);
// The same for bytes that are there already; errors open with `path`.
void write_whole_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace megaflux
