// The .npz container: a zip file whose entries are .npy arrays. This reader knows the central
// directory and stored (uncompressed) entries and needs no library; deflated entries go through
// deflate.h. Untrusted input.
//
// A stored entry lies in the file as it is: local header (30 bytes + name + extra), then the array.
// The directory at the end of the file says where each local header starts and how long its data
// is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace megaflux {

inline constexpr size_t kMaxZipEntries = 64;
// Of the file, and of all its entries together when unpacked.
inline constexpr uint64_t kMaxZipBytes = uint64_t{1} << 30;

enum class ZipMethod : uint16_t { kStored = 0, kDeflated = 8 };

struct ZipEntry {
  std::string name;
  ZipMethod method = ZipMethod::kStored;
  uint32_t crc = 0;           // of the unpacked bytes
  uint64_t packed_bytes = 0;  // as in the file
  uint64_t size_bytes = 0;    // unpacked
  uint64_t data_offset = 0;   // of the packed bytes
};

// All entries of the file, each inside it. Throws kBadInput, opening with `file_name`: no zip,
// truncated, ZIP64 or several disks, encrypted, another method, an entry outside the file, a name
// twice, more than kMaxZipEntries, more than kMaxZipBytes unpacked, or a size that no deflate
// stream of that length can reach.
std::vector<ZipEntry> parse_zip(std::span<const std::byte> file, std::string_view file_name);

// The bytes of a stored entry, after their checksum was compared.
std::span<const std::byte> stored_bytes(std::span<const std::byte> file, const ZipEntry& entry,
                                        std::string_view file_name);

struct ZipInput {
  std::string name;
  std::vector<std::byte> bytes;
};

// A zip file of stored entries, dated 1980-01-01: equal inputs give equal bytes.
std::vector<std::byte> encode_stored_zip(std::span<const ZipInput> inputs);

// CRC-32 of zip files (reflected polynomial 0xedb88320).
uint32_t zip_crc(std::span<const std::byte> bytes);

}  // namespace megaflux
