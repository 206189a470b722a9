// One .npy array as bytes: header parsing and writing (NumPy format 1.0 to 3.0), no pickles, no
// allocation beyond the header's own words. Everything read here is untrusted.
//
// Example: an int32 array of shape [2, 3] starts with "\x93NUMPY", version 1.0, a header length and
// the text
//   {'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }
// padded with blanks and closed by a newline, so that the payload begins at a multiple of 64; 24
// payload bytes follow and nothing after them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace megaflux {

// Element types. The trace format has kUint8, kInt16, kInt32, kInt64 and kFloat32; recordings of
// other systems have the rest. A text dtype "<U12" is kText, code points of four bytes, with the
// length as one more axis: shape () of "<U12" is read and written as shape [12].
enum class NpyType : uint8_t {
  kUint8,
  kInt16,
  kInt32,
  kInt64,
  kFloat32,
  kInt8,
  kUint16,
  kUint32,
  kUint64,
  kText
};

// "|u1", "<i2", "<i4", "<i8", "<f4", "|i1", "<u2", "<u4", "<u8", "<U".
std::string_view npy_descr(NpyType type);
size_t npy_bytes(NpyType type);

// Limits of an array, checked before anything is computed from its header.
inline constexpr size_t kMaxNpyHeaderBytes = 4096;
inline constexpr size_t kMaxNpyDims = 8;
inline constexpr int64_t kMaxNpyExtent = int64_t{1} << 40;

// An array of a file; `payload` points into the caller's bytes and has exactly the size of shape
// and type.
struct NpyView {
  NpyType type = NpyType::kUint8;
  std::vector<int64_t> shape;
  std::span<const std::byte> payload;
  int64_t num_elements() const;
};

// "[2, any, 3]" of {2, -1, 3}, for messages.
std::string shape_text(std::span<const int64_t> shape);

// Throws kBadInput, each message opening with `where` ("law.npz: array loads"): not .npy, unknown
// version or dtype, Fortran order, a malformed header, an extent over its limit, a payload shorter
// or longer than the shape says.
NpyView parse_npy(std::span<const std::byte> bytes, std::string_view where);

// The whole .npy file, format 1.0. `payload` has the size of shape and type.
std::vector<std::byte> encode_npy(NpyType type, std::span<const int64_t> shape,
                                  std::span<const std::byte> payload);

}  // namespace megaflux
