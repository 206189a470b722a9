#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "viewer/array_blob.h"
#include "viewer/packed_text.h"
#include "viewer/report_fixture.h"

namespace megaflux::viewer {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Added in pieces of `piece` bytes.
std::string base64_of(std::string_view text, size_t piece = 1) {
  std::string out;
  Base64Text base64([&](const std::string& part) { out += part; });
  for (size_t at = 0; at < text.size(); at += piece) base64.add(bytes_of(text.substr(at, piece)));
  base64.finish();
  return out;
}

// The test vectors of RFC 4648, section 10.
TEST(PackedText, Base64Vectors) {
  EXPECT_EQ(base64_of(""), "");
  EXPECT_EQ(base64_of("f"), "Zg==");
  EXPECT_EQ(base64_of("fo"), "Zm8=");
  EXPECT_EQ(base64_of("foo"), "Zm9v");
  EXPECT_EQ(base64_of("foob"), "Zm9vYg==");
  EXPECT_EQ(base64_of("fooba"), "Zm9vYmE=");
  EXPECT_EQ(base64_of("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64_of("\xfb\xff\xbf"), "+/+/");
}

TEST(PackedText, HeaderExample) {
  std::string out;
  Base64Text base64([&](const std::string& part) { out += part; });
  Deflater deflater([&](std::span<const std::byte> piece) { base64.add(piece); });
  deflater.finish();
  base64.finish();
  EXPECT_EQ(out, "AwA=");
}

RC_GTEST_PROP(PackedText, AnyBytesInAnyPieces, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
  const auto piece = static_cast<size_t>(*rc::gen::inRange(1, 9));
  RC_ASSERT(decoded_base64(base64_of(text, piece)) == text);
  std::string packed;
  Deflater deflater([&](std::span<const std::byte> part) {
    packed.append(reinterpret_cast<const char*>(part.data()), part.size());
  });
  for (size_t at = 0; at < text.size(); at += piece)
    deflater.add(bytes_of(text).subspan(at, std::min(piece, text.size() - at)));
  deflater.finish();
  RC_ASSERT(inflated(packed) == text);
}

// Larger than any buffer on the way, and not compressible.
TEST(PackedText, ManyBytes) {
  Rng rng(3);
  std::string text(1'000'003, '\0');
  for (char& c : text) c = static_cast<char>(rng.below(256));
  std::string packed;
  Deflater deflater([&](std::span<const std::byte> part) {
    packed.append(reinterpret_cast<const char*>(part.data()), part.size());
  });
  deflater.add(bytes_of(text));
  deflater.finish();
  EXPECT_GT(packed.size(), text.size() * 99 / 100);
  EXPECT_EQ(inflated(packed), text);
}

TEST(ArrayBlob, HeaderExample) {
  ArrayBlob blob;
  blob.add(std::vector<uint8_t>{1, 2, 3});
  const Json reference = blob.add(std::vector<float>{0.5f});
  EXPECT_EQ(reference, (Json{{"at", 4}, {"count", 1}, {"type", "f32"}}));
  EXPECT_EQ(blob.size_bytes(), 8u);
  std::string bytes;
  blob.for_each_piece([&](std::span<const std::byte> piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  EXPECT_EQ(bytes, std::string("\x01\x02\x03\x00\x00\x00\x00\x3f", 8));
}

}  // namespace
}  // namespace megaflux::viewer
