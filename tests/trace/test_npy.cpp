#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "trace/trace_fixture.h"

namespace megaflux {
namespace {

// A .npy file with this header text and payload.
std::vector<std::byte> npy_of(std::string_view header, size_t payload_bytes, char version = 1) {
  std::string text = "\x93NUMPY";
  text += {version, '\0', static_cast<char>(header.size() & 0xff),
           static_cast<char>(header.size() >> 8)};
  if (version > 1) text += std::string(2, '\0');
  text += header;
  text += std::string(payload_bytes, '\x07');
  return bytes_of(text);
}

TEST(Npy, HeaderExample) {
  const std::vector<int32_t> values = {1, 2, 3, 4, 5, 6};
  const auto bytes =
      encode_npy(NpyType::kInt32, std::vector<int64_t>{2, 3}, std::as_bytes(std::span(values)));
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(text.substr(10, 59), "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }");
  EXPECT_EQ(bytes.size() - 24, 128u);
  EXPECT_EQ(text[127], '\n');
  const NpyView view = parse_npy(bytes, "test");
  EXPECT_EQ(view.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(view.num_elements(), 6);
  EXPECT_EQ(std::memcmp(view.payload.data(), values.data(), 24), 0);
}

RC_GTEST_PROP(Npy, RoundTrip, ()) {
  const auto shape = *rc::gen::resize(
      5, rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, 5)));
  const auto type = *rc::gen::element(NpyType::kUint8, NpyType::kInt16, NpyType::kInt32,
                                      NpyType::kInt64, NpyType::kFloat32, NpyType::kInt8,
                                      NpyType::kUint16, NpyType::kUint32, NpyType::kUint64);
  size_t size = npy_bytes(type);
  for (const int64_t extent : shape) size *= static_cast<size_t>(extent);
  std::vector<std::byte> payload(size);
  Rng rng(size);
  for (std::byte& byte : payload) byte = static_cast<std::byte>(rng.next());
  const auto bytes = encode_npy(type, shape, payload);
  RC_ASSERT((bytes.size() - size) % 64 == 0u);
  const NpyView view = parse_npy(bytes, "test");
  RC_ASSERT(view.type == type);
  RC_ASSERT(view.shape == shape);
  RC_ASSERT(std::equal(view.payload.begin(), view.payload.end(), payload.begin(), payload.end()));
}

TEST(Npy, OtherWritersHeaders) {
  // Versions 2 and 3, other order of keys, double quotes, no trailing commas, no padding.
  const std::string_view header = R"({"shape":(2,3),"fortran_order":False,"descr":"<i2"})";
  for (const char version : {'\1', '\2', '\3'}) {
    const auto bytes = npy_of(header, 12, version);
    EXPECT_EQ(parse_npy(bytes, "test").shape, (std::vector<int64_t>{2, 3}));
  }
  const auto scalar = npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (), }   \n", 4);
  EXPECT_EQ(parse_npy(scalar, "test").num_elements(), 1);
  const auto vector = npy_of("{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }", 5);
  EXPECT_EQ(parse_npy(vector, "test").shape, (std::vector<int64_t>{5}));
  const auto empty =
      npy_of("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 1099511627776)}", 0);
  EXPECT_EQ(parse_npy(empty, "test").num_elements(), 0);
}

TEST(Npy, TextIsCodePointsWithItsLengthAsAnAxis) {
  const std::u32string words = U"ab\u00b5cd ";
  const auto payload = std::as_bytes(std::span(words));
  const auto two = encode_npy(NpyType::kText, std::vector<int64_t>{2, 3}, payload);
  const std::string text(reinterpret_cast<const char*>(two.data()), two.size());
  EXPECT_EQ(text.substr(10, 57), "{'descr': '<U3', 'fortran_order': False, 'shape': (2,), }");
  EXPECT_EQ(parse_npy(two, "test").shape, (std::vector<int64_t>{2, 3}));
  const auto one = encode_npy(NpyType::kText, std::vector<int64_t>{6}, payload);
  EXPECT_EQ(parse_npy(one, "test").shape, std::vector<int64_t>{6});
  EXPECT_EQ(parse_npy(one, "test").type, NpyType::kText);
  for (const std::string_view dtype : {"<U", "<U-1", "<U9x", "<U99999999999999999999", ">U1"}) {
    const std::string header =
        "{'descr': '" + std::string(dtype) + "', 'fortran_order': False, 'shape': ()}";
    expect_bad_input([&] { parse_npy(npy_of(header, 4), "test"); }, {"test: "});
  }
}

TEST(Npy, BadInputNamesTheArray) {
  const auto refused = [](const std::vector<std::byte>& bytes, std::vector<std::string> words) {
    words.push_back("x.npz: array loads");
    expect_bad_input([&] { parse_npy(bytes, "x.npz: array loads"); }, words);
  };
  const auto header = [](std::string_view descr, std::string_view order, std::string_view shape) {
    std::string text = "{'descr': ";
    text.append(descr).append(", 'fortran_order': ").append(order);
    return text.append(", 'shape': ").append(shape).append(", }");
  };
  refused({}, {"0 bytes"});
  refused(bytes_of("PK\x03\x04 is no array"), {"magic"});
  refused(npy_of("", 0, 9), {"version 9", "[1, 3]"});
  refused(npy_of(header("'>i4'", "False", "(1,)"), 4), {"dtype '>i4'", "<i4"});
  refused(npy_of(header("'|O'", "False", "(1,)"), 8), {"dtype '|O'"});
  refused(npy_of(header("'<f8'", "False", "(1,)"), 8), {"dtype '<f8'"});
  refused(npy_of(header("[('a', '<i4')]", "False", "(1,)"), 4), {"structured dtypes"});
  refused(npy_of(header("'<i4'", "True", "(1,)"), 4), {"Fortran order", "ascontiguousarray"});
  refused(npy_of(header("'<i4'", "0", "(1,)"), 4), {"True or False"});
  refused(npy_of(header("'<i4'", "False", "(-1,)"), 4), {"extent", "[0, 1099511627776]"});
  refused(npy_of(header("'<i4'", "False", "(99999999999999999999,)"), 4), {"extent"});
  refused(npy_of(header("'<i4'", "False", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), 4), {"8 dimensions"});
  refused(npy_of(header("'<i4'", "False", "(3,)"), 8), {"shape needs more", "8 bytes"});
  refused(npy_of(header("'<i4'", "False", "(1,)"), 8), {"8 payload bytes", "needs 4"});
  // The product passes 2^64 and would come out as 0.
  refused(npy_of(header("'<i4'", "False", "(1099511627776, 1099511627776)"), 4), {"needs more"});
  refused(npy_of("{'descr': '<i4', 'shape': (1,)}", 4), {"lacks"});
  refused(npy_of("{'descr': '<i4', 'descr': '<i4', 'shape': (1,)}", 4), {"'descr' twice"});
  refused(npy_of("{'descr': '<i4', 'colour': 'red'}", 4), {"'colour'"});
  refused(npy_of("{'descr': '<i4", 4), {"unclosed quote"});
  refused(npy_of("{'descr': '<i4', 'fortran_order': False, 'shape': (1,)} + exit()", 4),
          {"after the dict"});
  refused(npy_of(std::string(5000, ' '), 4), {"5000 bytes", "4096"});
  auto cut = npy_of(header("'<i4'", "False", "(1,)"), 4);
  cut.resize(30);
  refused(cut, {"cut off"});
}

TEST(Npy, EveryPrefixIsRefused) {
  const std::vector<int32_t> values = {1, 2, 3};
  const auto bytes =
      encode_npy(NpyType::kInt32, std::vector<int64_t>{3}, std::as_bytes(std::span(values)));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(parse_npy(std::span(bytes).first(size), "test"), Error) << size;
  }
}

}  // namespace
}  // namespace megaflux
