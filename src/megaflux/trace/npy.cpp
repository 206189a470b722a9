#include "megaflux/trace/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>

#include "megaflux/base/check.h"
#include "megaflux/base/math.h"

namespace megaflux {
namespace {

static_assert(std::endian::native == std::endian::little, "trace files are copied byte for byte");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::array kTypes = {NpyType::kUint8,  NpyType::kInt16,   NpyType::kInt32,
                               NpyType::kInt64,  NpyType::kFloat32, NpyType::kInt8,
                               NpyType::kUint16, NpyType::kUint32,  NpyType::kUint64};

// A cursor over the header's Python dict literal; every method throws on what the format does not
// allow.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string_view where) : rest_(text), where_(where) {}

  void parse(NpyView& array) {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        set_once(has_descr_, key);
        array.type = type_of(quoted());
      } else if (key == "fortran_order") {
        set_once(has_order_, key);
        MF_CHECK(!boolean(), where_, ": Fortran order; write np.ascontiguousarray(array)");
      } else if (key == "shape") {
        set_once(has_shape_, key);
        array.shape = tuple();
      } else {
        throw_error(ErrorCode::kBadInput, where_, ": unknown key '", key, "' in the .npy header");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    MF_CHECK(rest_.empty(), where_, ": text after the dict of the .npy header");
    MF_CHECK(has_descr_ && has_order_ && has_shape_, where_,
             ": the .npy header lacks descr, fortran_order or shape");
    if (array.type == NpyType::kText) array.shape.push_back(text_length_);
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n'))
      rest_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    MF_CHECK(accept(c), where_, ": '", c,
             "' expected in the .npy header (structured dtypes and pickles ", "are not read)");
  }
  void set_once(bool& seen, std::string_view key) {
    MF_CHECK(!seen, where_, ": key '", key, "' twice in the .npy header");
    seen = true;
  }
  std::string_view quoted() {
    const char quote = accept('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    const size_t end = rest_.find(quote);
    MF_CHECK(end != std::string_view::npos, where_, ": unclosed quote in the .npy header");
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return word;
  }
  bool boolean() {
    skip_blanks();
    for (const std::string_view word : {"True", "False"}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return word == "True";
    }
    throw_error(ErrorCode::kBadInput, where_, ": True or False expected in the .npy header");
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> extents;
    expect('(');
    while (!accept(')')) {
      MF_CHECK(extents.size() < kMaxNpyDims, where_, ": more than ", kMaxNpyDims, " dimensions");
      extents.push_back(extent());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return extents;
  }
  int64_t extent() {
    skip_blanks();
    return number(rest_);
  }
  // Cuts a number off the front of `text`.
  int64_t number(std::string_view& text) const {
    int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    MF_CHECK(error == std::errc() && value >= 0 && value <= kMaxNpyExtent, where_,
             ": an extent of the shape is no number in [0, ", kMaxNpyExtent, "]");
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return value;
  }
  NpyType type_of(std::string_view descr) {
    for (const NpyType type : kTypes) {
      if (descr == npy_descr(type)) return type;
    }
    constexpr std::string_view kText = "<U";
    if (descr.starts_with(kText)) {
      std::string_view length = descr.substr(kText.size());
      text_length_ = number(length);
      if (length.empty()) return NpyType::kText;
    }
    throw_error(ErrorCode::kBadInput, where_, ": dtype '", descr,
                "' is none of |u1, <i2, <i4, <i8, <f4, |i1, <u2, <u4, <u8, <U");
  }

  std::string_view rest_;
  std::string_view where_;
  bool has_descr_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
  int64_t text_length_ = 0;
};

// The header's text and what follows it.
struct NpyParts {
  std::string_view header;
  std::span<const std::byte> payload;
};

NpyParts split(std::span<const std::byte> bytes, std::string_view where) {
  MF_CHECK(bytes.size() >= 10, where, ": ", bytes.size(), " bytes are too few for a .npy array");
  MF_CHECK(std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0, where,
           ": does not start with the .npy magic");
  const auto byte_at = [&](size_t i) { return std::to_integer<size_t>(bytes[i]); };
  const size_t version = byte_at(6);
  MF_CHECK(version >= 1 && version <= 3, where, ": .npy version ", version, " is outside [1, 3]");
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t header_begin = 8 + length_bytes;
  MF_CHECK(bytes.size() >= header_begin, where, ": the .npy header is cut off");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= byte_at(8 + i) << (8 * i);
  MF_CHECK(length <= kMaxNpyHeaderBytes, where, ": a .npy header of ", length, " bytes, at most ",
           kMaxNpyHeaderBytes, " are read");
  MF_CHECK(bytes.size() - header_begin >= length, where, ": the .npy header is cut off");
  return {.header = {reinterpret_cast<const char*>(bytes.data()) + header_begin, length},
          .payload = bytes.subspan(header_begin + length)};
}

}  // namespace

std::string_view npy_descr(NpyType type) {
  switch (type) {
    case NpyType::kUint8:
      return "|u1";
    case NpyType::kInt16:
      return "<i2";
    case NpyType::kInt32:
      return "<i4";
    case NpyType::kInt64:
      return "<i8";
    case NpyType::kFloat32:
      return "<f4";
    case NpyType::kInt8:
      return "|i1";
    case NpyType::kUint16:
      return "<u2";
    case NpyType::kUint32:
      return "<u4";
    case NpyType::kUint64:
      return "<u8";
    case NpyType::kText:
      return "<U";
  }
  return "";
}

// The last character of the descr is the size, but for text.
size_t npy_bytes(NpyType type) {
  return type == NpyType::kText ? 4 : static_cast<size_t>(npy_descr(type).back() - '0');
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t extent : shape) {
    if (text.size() > 1) text += ", ";
    text += extent < 0 ? "any" : std::to_string(extent);
  }
  return text + "]";
}

int64_t NpyView::num_elements() const {
  return static_cast<int64_t>(payload.size() / npy_bytes(type));
}

NpyView parse_npy(std::span<const std::byte> bytes, std::string_view where) {
  const NpyParts parts = split(bytes, where);
  NpyView array;
  HeaderParser(parts.header, where).parse(array);
  // A zero extent makes any product zero; otherwise the product may not pass the payload.
  const auto limit = static_cast<int64_t>(parts.payload.size() / npy_bytes(array.type));
  int64_t elements = 1;
  if (std::find(array.shape.begin(), array.shape.end(), 0) != array.shape.end()) {
    elements = 0;
  } else {
    for (const int64_t extent : array.shape) {
      MF_CHECK(extent <= limit / elements, where, ": the shape needs more than the ",
               parts.payload.size(), " bytes that follow the header");
      elements *= extent;
    }
  }
  const size_t expected = static_cast<size_t>(elements) * npy_bytes(array.type);
  MF_CHECK(expected == parts.payload.size(), where, ": ", parts.payload.size(),
           " payload bytes, the shape needs ", expected);
  array.payload = parts.payload;
  return array;
}

std::vector<std::byte> encode_npy(NpyType type, std::span<const int64_t> shape,
                                  std::span<const std::byte> payload) {
  size_t expected = npy_bytes(type);
  std::string header = "{'descr': '" + std::string(npy_descr(type));
  if (type == NpyType::kText) {
    MF_INVARIANT(!shape.empty(), "text without the axis of its length");
    header += std::to_string(shape.back());
    expected *= static_cast<size_t>(shape.back());
    shape = shape.first(shape.size() - 1);
  }
  header += "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < shape.size(); ++i) {
    header += std::to_string(shape[i]) + (i == 0 || i + 1 < shape.size() ? "," : "");
    if (i + 1 < shape.size()) header += ' ';
    expected *= static_cast<size_t>(shape[i]);
  }
  header += "), }";
  MF_INVARIANT(expected == payload.size(), "payload of ", payload.size(), " bytes, shape needs ",
               expected);
  constexpr size_t kPrefixBytes = 10;
  header.resize(round_up<size_t>(kPrefixBytes + header.size() + 1, 64) - kPrefixBytes - 1, ' ');
  header += '\n';
  std::string prefix(kMagic);
  prefix += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
             static_cast<char>(header.size() >> 8)};
  std::vector<std::byte> bytes(prefix.size() + header.size() + payload.size());
  std::memcpy(bytes.data(), prefix.data(), prefix.size());
  std::memcpy(bytes.data() + prefix.size(), header.data(), header.size());
  if (!payload.empty()) {
    std::memcpy(bytes.data() + prefix.size() + header.size(), payload.data(), payload.size());
  }
  return bytes;
}

}  // namespace megaflux
