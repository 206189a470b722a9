#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <set>
#include <vector>

#include "megaflux/base/hash.h"

namespace megaflux {
namespace {

uint64_t hash_of(const std::vector<uint32_t>& words) {
  Hasher hasher;
  for (const uint32_t word : words) hasher.add(word);
  return hasher.value();
}

// The bytes of plans and stored configurations rest on these values: a change is a change of
// format.
TEST(Hash, GoldenValues) {
  EXPECT_EQ(mix64(0), 0u);
  EXPECT_EQ(mix64(0x9e3779b97f4a7c15ull), 0xe220a8397b1dcdafull);
  EXPECT_EQ(hash_word(0, 0), 0xe220a8397b1dcdafull);
  EXPECT_EQ(hash_of({}), 0u);
  EXPECT_EQ(hash_of({1, 2, 3}), mix64((hash_word(1, 0) + hash_word(2, 1) + hash_word(3, 2)) ^ 3));
}

// What a GPU block does: contributions in any order, one sum.
RC_GTEST_PROP(Hash, SumInAnyOrder, (const std::vector<uint32_t>& words)) {
  uint64_t sum = 0;
  for (size_t i = words.size(); i-- > 0;) sum += hash_word(words[i], i);
  RC_ASSERT(mix64(sum ^ words.size()) == hash_of(words));
}

RC_GTEST_PROP(Hash, OneBitChangesAboutHalf, (std::vector<uint32_t> words)) {
  RC_PRE(!words.empty());
  const uint64_t before = hash_of(words);
  const auto at = *rc::gen::inRange<size_t>(0, words.size());
  words[at] ^= 1u << *rc::gen::inRange(0, 32);
  const int changed = std::popcount(before ^ hash_of(words));
  RC_ASSERT(changed >= 8 && changed <= 56);
}

TEST(Hash, PositionAndLengthCount) {
  std::set<uint64_t> seen;
  for (const auto& words : std::vector<std::vector<uint32_t>>{
           {}, {0}, {0, 0}, {1}, {1, 0}, {0, 1}, {1, 2}, {2, 1}, {3}}) {
    EXPECT_TRUE(seen.insert(hash_of(words)).second);
  }
}

TEST(Hash, SpansDoNotRunIntoEachOther) {
  const std::vector<int32_t> one = {7};
  const std::vector<int32_t> none;
  Hasher a;
  a.add_span(std::span(one));
  a.add_span(std::span(none));
  Hasher b;
  b.add_span(std::span(none));
  b.add_span(std::span(one));
  EXPECT_NE(a.value(), b.value());
}

TEST(Hash, MixIsABijectionOnASample) {
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 100000; ++i) ASSERT_TRUE(seen.insert(mix64(i << 20)).second);
}

}  // namespace
}  // namespace megaflux
