#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "megaflux/trace/deflate.h"
#include "trace/trace_fixture.h"

namespace megaflux {
namespace {

std::vector<ZipInput> two_inputs() {
  std::vector<ZipInput> inputs = {{"a.npy", bytes_of("first")}, {"b.npy", {}}};
  for (int i = 0; i < 3000; ++i) inputs[1].bytes.push_back(static_cast<std::byte>(i / 100));
  return inputs;
}

void put(std::vector<std::byte>& file, size_t at, uint32_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) file[at + i] = static_cast<std::byte>(value >> (8 * i));
}

size_t find(const std::vector<std::byte>& file, std::string_view signature, size_t from = 0) {
  const auto words = bytes_of(signature);
  return static_cast<size_t>(
      std::search(file.begin() + from, file.end(), words.begin(), words.end()) - file.begin());
}

TEST(Zip, ChecksumOfTheStandardExample) {
  EXPECT_EQ(zip_crc(bytes_of("123456789")), 0xcbf43926u);
  EXPECT_EQ(zip_crc({}), 0u);
}

TEST(Zip, StoredRoundTrip) {
  const auto inputs = two_inputs();
  const auto file = encode_stored_zip(inputs);
  EXPECT_EQ(encode_stored_zip(inputs), file);
  const auto entries = parse_zip(file, "test");
  ASSERT_EQ(entries.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(entries[i].name, inputs[i].name);
    EXPECT_EQ(entries[i].method, ZipMethod::kStored);
    const auto bytes = stored_bytes(file, entries[i], "test");
    EXPECT_TRUE(
        std::equal(bytes.begin(), bytes.end(), inputs[i].bytes.begin(), inputs[i].bytes.end()));
  }
}

TEST(Zip, DeflatedRoundTrip) {
  if (!deflate_available()) GTEST_SKIP() << "SKIPPED: this build has no libzip";
  const auto inputs = two_inputs();
  const auto file = encode_deflated_zip(inputs);
  EXPECT_EQ(encode_deflated_zip(inputs), file) << "equal inputs, equal bytes";
  EXPECT_LT(file.size(), 1000u);
  const auto entries = parse_zip(file, "test");
  ASSERT_EQ(entries.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(entries[i].size_bytes, inputs[i].bytes.size());
    if (entries[i].method == ZipMethod::kDeflated) {
      EXPECT_EQ(inflate_entry(file, entries[i], "test"), inputs[i].bytes);
    }
  }
  EXPECT_EQ(entries[1].method, ZipMethod::kDeflated);
}

TEST(Zip, ACommentAtTheEndIsFine) {
  auto file = encode_stored_zip(two_inputs());
  put(file, file.size() - 2, 5, 2);
  const auto comment = bytes_of("hello");
  file.insert(file.end(), comment.begin(), comment.end());
  EXPECT_EQ(parse_zip(file, "test").size(), 2u);
}

TEST(Zip, EveryPrefixIsRefused) {
  const auto file = encode_stored_zip(two_inputs());
  for (size_t size = 0; size < file.size(); ++size) {
    ASSERT_THROW(parse_zip(std::span(file).first(size), "test"), Error) << size;
  }
}

TEST(Zip, BadInputNamesFileAndEntry) {
  const auto good = encode_stored_zip(two_inputs());
  const size_t record = find(good, "PK\x01\x02");
  const size_t end = find(good, "PK\x05\x06");
  const auto refused = [&](size_t at, uint32_t value, size_t size, std::vector<std::string> words) {
    auto file = good;
    put(file, at, value, size);
    words.push_back("x.npz");
    expect_bad_input([&] { parse_zip(file, "x.npz"); }, words);
  };
  refused(record + 8, 1, 2, {"a.npy", "encrypted"});
  refused(record + 10, 12, 2, {"a.npy", "method 12"});
  refused(record + 20, 4, 4, {"a.npy", "4 bytes", "declared with 5"});
  refused(record + 24, 0xffffffff, 4, {"a.npy", "ZIP64"});
  refused(record + 42, 0xffff, 4, {"truncated"});
  refused(record + 42, 1, 4, {"local header"});
  refused(record, 0, 4, {"directory record"});
  refused(record + 28, 0xffff, 2, {"truncated"});
  refused(end + 4, 1, 2, {"disks"});
  refused(end + 8, 65, 4, {"disks"});
  refused(end + 8, (65 << 16) | 65, 4, {"65 entries", "64"});
  refused(end + 8, (1 << 16) | 1, 4, {"directory"});
  refused(end + 8, 0xffffffff, 4, {"ZIP64"});
  refused(end + 12, 7, 4, {"directory does not end"});
  refused(end + 16, 0, 4, {"directory does not end"});
  // Stored data that would reach into the directory.
  auto file = good;
  put(file, record + 20, 60000, 4);
  put(file, record + 24, 60000, 4);
  expect_bad_input([&] { parse_zip(file, "x.npz"); }, {"x.npz", "a.npy", "reach past"});
}

TEST(Zip, ABombIsRefusedBeforeMemoryIsTaken) {
  // Deflated entries that declare more than deflate can hold, or too much together.
  auto file = encode_stored_zip(two_inputs());
  const size_t record = find(file, "PK\x01\x02");
  put(file, record + 10, 8, 2);
  put(file, record + 24, 1 << 30, 4);
  expect_bad_input([&] { parse_zip(file, "x.npz"); }, {"a.npy", "1073741824", "deflate"});
  std::vector<ZipInput> many;
  for (int i = 0; i < 3; ++i) {
    many.push_back({std::to_string(i), std::vector<std::byte>(400000)});
  }
  file = encode_stored_zip(many);
  for (size_t at = find(file, "PK\x01\x02"); at < file.size();
       at = find(file, "PK\x01\x02", at + 1)) {
    put(file, at + 10, 8, 2);
    put(file, at + 24, 400'000'000, 4);
  }
  expect_bad_input([&] { parse_zip(file, "x.npz"); }, {"1073741824", "together"});
}

TEST(Zip, NamesAreUnique) {
  auto inputs = two_inputs();
  inputs[1].name = "a.npy";
  const auto file = encode_stored_zip(inputs);
  expect_bad_input([&] { parse_zip(file, "x.npz"); }, {"a.npy", "twice"});
}

TEST(Zip, ChangedDataIsNoticed) {
  auto file = encode_stored_zip(two_inputs());
  file[find(file, "first") + 2] ^= std::byte{1};
  const auto entries = parse_zip(file, "x.npz");
  expect_bad_input([&] { stored_bytes(file, entries[0], "x.npz"); },
                   {"x.npz", "a.npy", "checksum"});
}

RC_GTEST_PROP(Zip, DamagedDeflateNeverGivesOtherBytes, (uint64_t seed)) {
  RC_PRE(deflate_available());
  const auto inputs = two_inputs();
  auto file = encode_deflated_zip(inputs);
  Rng rng(seed);
  file[rng.below(static_cast<uint32_t>(file.size()))] ^= static_cast<std::byte>(1u << rng.below(8));
  try {
    for (const ZipEntry& entry : parse_zip(file, "test")) {
      if (entry.method != ZipMethod::kDeflated || entry.name != "b.npy") continue;
      RC_ASSERT(inflate_entry(file, entry, "test") == inputs[1].bytes);
    }
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ErrorCode::kBadInput);
  }
}

}  // namespace
}  // namespace megaflux
