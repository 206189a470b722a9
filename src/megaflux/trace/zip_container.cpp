#include "megaflux/trace/zip_container.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint32_t kDirectorySignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr size_t kLocalBytes = 30;
constexpr size_t kDirectoryBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr uint16_t kEpochDate = (1 << 5) | 1;  // 1980-01-01 in DOS form

// Reads little-endian words at offsets of a record, never past its end.
class Record {
 public:
  Record(std::span<const std::byte> file, uint64_t offset, size_t size, std::string_view file_name)
      : file_name_(file_name) {
    MF_CHECK(offset <= file.size() && file.size() - offset >= size, file_name,
             ": truncated zip file: a record at byte ", offset, " needs ", size,
             " bytes, the file has ", file.size());
    bytes_ = file.subspan(offset, size);
  }
  uint16_t u16(size_t at) const { return static_cast<uint16_t>(word(at, 2)); }
  uint32_t u32(size_t at) const { return word(at, 4); }
  void expect_signature(uint32_t signature, std::string_view what) const {
    MF_CHECK(u32(0) == signature, file_name_, ": broken zip file: no ", what, " where one must be");
  }

 private:
  uint32_t word(size_t at, size_t size) const {
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= std::to_integer<uint32_t>(bytes_[at + i]) << (8 * i);
    return value;
  }
  std::span<const std::byte> bytes_;
  std::string_view file_name_;
};

std::string text_at(std::span<const std::byte> file, uint64_t offset, size_t size) {
  return {reinterpret_cast<const char*>(file.data()) + offset, size};
}

// Offset of the end record; a comment of up to 65535 bytes may follow it.
uint64_t find_end(std::span<const std::byte> file, std::string_view file_name) {
  MF_CHECK(file.size() >= kEndBytes, file_name, ": ", file.size(),
           " bytes are too few for a zip file");
  const size_t lowest = file.size() - std::min<size_t>(file.size(), kEndBytes + 0xffff);
  for (size_t at = file.size() - kEndBytes + 1; at-- > lowest;) {
    const Record end(file, at, kEndBytes, file_name);
    if (end.u32(0) == kEndSignature && at + kEndBytes + end.u16(20) == file.size()) return at;
  }
  throw_error(ErrorCode::kBadInput, file_name, ": no zip file, or its end is cut off");
}

void check_entry(const ZipEntry& entry, std::string_view file_name) {
  const bool stored = entry.method == ZipMethod::kStored;
  MF_CHECK(stored || entry.method == ZipMethod::kDeflated, file_name, ": entry ", entry.name,
           ": zip method ", static_cast<int>(entry.method), " is neither stored nor deflated");
  MF_CHECK(!stored || entry.packed_bytes == entry.size_bytes, file_name, ": entry ", entry.name,
           ": stored with ", entry.packed_bytes, " bytes, declared with ", entry.size_bytes);
  // Deflate packs 258 bytes into two bits at best.
  constexpr uint64_t kMaxRatio = 1032;
  MF_CHECK(entry.size_bytes <= entry.packed_bytes * kMaxRatio + kMaxRatio, file_name, ": entry ",
           entry.name, ": declares ", entry.size_bytes, " bytes from ", entry.packed_bytes,
           " deflated ones, more than deflate can hold");
}

// Reads the directory record at `at` and the local header that it names; moves `at` behind the
// record.
ZipEntry parse_entry(std::span<const std::byte> file, uint64_t directory_begin, uint64_t& at,
                     std::string_view file_name) {
  const Record record(file, at, kDirectoryBytes, file_name);
  record.expect_signature(kDirectorySignature, "directory record");
  const size_t name_bytes = record.u16(28);
  const uint64_t record_bytes = kDirectoryBytes + name_bytes + record.u16(30) + record.u16(32);
  (void)Record(file, at, record_bytes, file_name);
  ZipEntry entry{.name = text_at(file, at + kDirectoryBytes, name_bytes),
                 .method = static_cast<ZipMethod>(record.u16(10)),
                 .crc = record.u32(16),
                 .packed_bytes = record.u32(20),
                 .size_bytes = record.u32(24)};
  const uint64_t local_offset = record.u32(42);
  at += record_bytes;
  MF_CHECK((record.u16(8) & 1) == 0, file_name, ": entry ", entry.name, " is encrypted");
  MF_CHECK(std::max({entry.packed_bytes, entry.size_bytes, local_offset}) < 0xffffffffu, file_name,
           ": entry ", entry.name, ": ZIP64 is not read; split the trace into chunks");
  check_entry(entry, file_name);
  const Record local(file, local_offset, kLocalBytes, file_name);
  local.expect_signature(kLocalSignature, "local header");
  entry.data_offset = local_offset + kLocalBytes + local.u16(26) + local.u16(28);
  MF_CHECK(entry.data_offset + entry.packed_bytes <= directory_begin, file_name, ": entry ",
           entry.name, ": bytes [", entry.data_offset, ", ", entry.data_offset + entry.packed_bytes,
           ") reach past the ", directory_begin, " data bytes of the file");
  return entry;
}

class ZipBuilder {
 public:
  void u16(uint32_t value) { word(value, 2); }
  void u32(uint32_t value) { word(value, 4); }
  void bytes(std::span<const std::byte> more) { out_.insert(out_.end(), more.begin(), more.end()); }
  void text(std::string_view more) { bytes(std::as_bytes(std::span(more.data(), more.size()))); }
  // The fields that local header and directory record share: version to extra length.
  void shared_fields(const ZipInput& input, uint32_t crc) {
    u16(20);  // version needed: 2.0
    u16(0);   // flags
    u16(static_cast<uint32_t>(ZipMethod::kStored));
    u16(0);  // time
    u16(kEpochDate);
    u32(crc);
    u32(static_cast<uint32_t>(input.bytes.size()));
    u32(static_cast<uint32_t>(input.bytes.size()));
    u16(static_cast<uint32_t>(input.name.size()));
    u16(0);  // extra
  }
  uint32_t size() const { return static_cast<uint32_t>(out_.size()); }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  void word(uint32_t value, int size) {
    for (int i = 0; i < size; ++i) out_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  std::vector<std::byte> out_;
};

}  // namespace

std::vector<ZipEntry> parse_zip(std::span<const std::byte> file, std::string_view file_name) {
  MF_CHECK(file.size() <= kMaxZipBytes, file_name, ": ", file.size(), " bytes, at most ",
           kMaxZipBytes, " are read; split the trace into chunks");
  const uint64_t end_at = find_end(file, file_name);
  const Record end(file, end_at, kEndBytes, file_name);
  const size_t num_entries = end.u16(10);
  const uint64_t directory_begin = end.u32(16);
  MF_CHECK(num_entries != 0xffff && directory_begin != 0xffffffffu, file_name,
           ": ZIP64 is not read; split the trace into chunks");
  MF_CHECK(end.u16(4) == 0 && end.u16(6) == 0 && end.u16(8) == num_entries, file_name,
           ": a zip file over several disks is not read");
  MF_CHECK(num_entries <= kMaxZipEntries, file_name, ": ", num_entries, " entries, at most ",
           kMaxZipEntries, " are read");
  MF_CHECK(directory_begin + end.u32(12) == end_at, file_name,
           ": broken zip file: the directory does not end where its end record starts");
  std::vector<ZipEntry> entries;
  entries.reserve(num_entries);
  uint64_t at = directory_begin;
  uint64_t total_bytes = 0;
  for (size_t i = 0; i < num_entries; ++i) {
    ZipEntry entry = parse_entry(file, directory_begin, at, file_name);
    const auto same_name = [&](const ZipEntry& other) { return other.name == entry.name; };
    MF_CHECK(std::none_of(entries.begin(), entries.end(), same_name), file_name, ": entry ",
             entry.name, " stands twice");
    total_bytes += entry.size_bytes;
    MF_CHECK(total_bytes <= kMaxZipBytes, file_name, ": entries of more than ", kMaxZipBytes,
             " unpacked bytes together; split the trace into chunks");
    entries.push_back(std::move(entry));
  }
  MF_CHECK(at == end_at, file_name, ": broken zip file: the directory holds ",
           end_at - directory_begin, " bytes, its records ", at - directory_begin);
  return entries;
}

std::span<const std::byte> stored_bytes(std::span<const std::byte> file, const ZipEntry& entry,
                                        std::string_view file_name) {
  MF_INVARIANT(entry.method == ZipMethod::kStored, "entry ", entry.name, " is deflated");
  const auto bytes = file.subspan(entry.data_offset, entry.size_bytes);
  MF_CHECK(zip_crc(bytes) == entry.crc, file_name, ": entry ", entry.name,
           ": the checksum does not match, the file is damaged");
  return bytes;
}

std::vector<std::byte> encode_stored_zip(std::span<const ZipInput> inputs) {
  uint64_t total_bytes = 0;
  for (const ZipInput& input : inputs) total_bytes += input.bytes.size();
  MF_CHECK(total_bytes < kMaxZipBytes && inputs.size() <= kMaxZipEntries, "trace: ", total_bytes,
           " bytes in ", inputs.size(), " arrays, at most ", kMaxZipBytes, " in ", kMaxZipEntries,
           " fit one file; split it into chunks");
  ZipBuilder zip;
  std::vector<uint32_t> offsets;
  std::vector<uint32_t> checksums;
  for (const ZipInput& input : inputs) {
    offsets.push_back(zip.size());
    checksums.push_back(zip_crc(input.bytes));
    zip.u32(kLocalSignature);
    zip.shared_fields(input, checksums.back());
    zip.text(input.name);
    zip.bytes(input.bytes);
  }
  const uint32_t directory_begin = zip.size();
  for (size_t i = 0; i < inputs.size(); ++i) {
    zip.u32(kDirectorySignature);
    zip.u16(20);  // made by: version 2.0, MS-DOS attributes
    zip.shared_fields(inputs[i], checksums[i]);
    zip.u16(0);  // comment
    zip.u16(0);  // disk
    zip.u16(0);  // internal attributes
    zip.u32(0);  // external attributes
    zip.u32(offsets[i]);
    zip.text(inputs[i].name);
  }
  const uint32_t directory_bytes = zip.size() - directory_begin;
  zip.u32(kEndSignature);
  zip.u32(0);  // both disk numbers
  zip.u16(static_cast<uint32_t>(inputs.size()));
  zip.u16(static_cast<uint32_t>(inputs.size()));
  zip.u32(directory_bytes);
  zip.u32(directory_begin);
  zip.u16(0);  // comment
  return zip.take();
}

uint32_t zip_crc(std::span<const std::byte> bytes) {
  static constexpr auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0xedb88320u : 0u);
      table[i] = value;
    }
    return table;
  }();
  uint32_t crc = 0xffffffffu;
  for (const std::byte byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ std::to_integer<uint32_t>(byte)) & 0xff];
  }
  return ~crc;
}

}  // namespace megaflux
