// Plans from outside: every corruption of the bytes is refused with words, and nothing is ever read
// outside the buffer (the same tests run under AddressSanitizer).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/base/hash.h"
#include "megaflux/base/rng.h"
#include "megaflux/moe/plan.h"

namespace megaflux {
namespace {

using Bytes = std::vector<std::byte>;

// E 3, P 2, s 1; owners {0, 0, 1}; expert 0 split 3 + 2.
Bytes example_bytes() {
  const std::vector<int32_t> owner_of{0, 0, 1};
  const std::vector<int32_t> blocks{5, 1, 1};
  const std::vector<DraftReplica> replicas{{.expert = 0, .rank = 1, .num_blocks = 2}};
  Plan plan;
  plan.assign(
      {.dims = {3, 2, 1, 128}, .owner_of = owner_of, .blocks = blocks, .replicas = replicas});
  return {plan.bytes().begin(), plan.bytes().end()};
}

const PlanLayout kLayout{PlanDims{3, 2, 1, 128}};

template <typename T>
void put(Bytes& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

// Gives the bytes the hash of their content, so that the checks behind the hash are reached.
void reseal(Bytes& bytes) {
  uint64_t sum = 0;
  uint64_t count = 0;
  const auto add = [&](uint32_t word) { sum += hash_word(word, count++); };
  for (size_t offset = 8; offset < 24; offset += 4) {
    uint32_t word = 0;
    std::memcpy(&word, bytes.data() + offset, 4);
    add(word);
  }
  for (size_t offset = 64; offset < bytes.size(); offset += 4) {
    uint32_t word = 0;
    std::memcpy(&word, bytes.data() + offset, std::min<size_t>(4, bytes.size() - offset));
    add(word);
  }
  put(bytes, 48, mix64(sum ^ count));
}

std::string refusal(const Bytes& bytes) {
  try {
    Plan::from_bytes(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput) << error.what();
    return error.what();
  }
  return "accepted";
}

template <typename T>
std::string refusal_with(size_t offset, T value) {
  Bytes bytes = example_bytes();
  put(bytes, offset, value);
  reseal(bytes);
  return refusal(bytes);
}

TEST(PlanBytes, ResealedExampleIsAccepted) {
  Bytes bytes = example_bytes();
  reseal(bytes);
  EXPECT_EQ(bytes, example_bytes()) << "the hash of the header is the documented one";
  EXPECT_EQ(refusal(bytes), "accepted");
}

TEST(PlanBytes, EveryTruncationAndAnExtraByteAreRefused) {
  const Bytes whole = example_bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal(Bytes(whole.begin(), whole.begin() + size)), "accepted") << size;
  }
  Bytes longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_EQ(refusal(longer), "plan: 183 bytes, 182 expected for E 3, P 2, s 1");
  EXPECT_EQ(refusal({}), "plan: 0 bytes, a header has 64");
}

TEST(PlanBytes, EverySingleBitThatMattersIsNoticed) {
  // Fields that the hash leaves out: the two known flags, search_id, max_blocks, num_copies,
  // objective.
  const auto is_free = [](size_t byte, int bit) {
    return (byte == 6 && bit < 2) || (byte >= 28 && byte < 48);
  };
  for (size_t byte = 0; byte < example_bytes().size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes bytes = example_bytes();
      bytes[byte] ^= std::byte{1} << bit;
      EXPECT_EQ(refusal(bytes) == "accepted", is_free(byte, bit)) << byte << ":" << bit;
    }
  }
}

TEST(PlanBytes, HeaderRefusals) {
  EXPECT_EQ(refusal_with<uint32_t>(0, 0x4c50464e), "plan: the first four bytes are not MFPL");
  EXPECT_EQ(refusal_with<uint16_t>(4, 2), "plan: version 2, this library reads version 1");
  EXPECT_EQ(refusal_with<uint16_t>(6, 4),
            "plan: flags 4 or reserved bytes 0 that version 1 does not know");
  EXPECT_EQ(refusal_with<uint64_t>(56, 9),
            "plan: flags 0 or reserved bytes 9 that version 1 does not know");
  EXPECT_EQ(refusal_with<int32_t>(8, 0), "num_experts: 0 is outside [1, 4096]");
  EXPECT_EQ(refusal_with<int32_t>(12, -2), "num_ranks: -2 is outside [1, 1024]");
  EXPECT_EQ(refusal_with<int32_t>(16, 2000), "replica_slots: 2000 is outside [0, 1024]");
  EXPECT_EQ(refusal_with<int32_t>(20, 0), "block_rows: 0 is outside [1, 1048576]");
  EXPECT_EQ(refusal_with<int32_t>(24, 5),
            "plan: instance_begin runs from 0 to 4, num_instances is 5");
}

TEST(PlanBytes, ContentRefusals) {
  const size_t first = kLayout.instances;
  EXPECT_EQ(refusal_with<int32_t>(kLayout.owner_of, 2), "plan: owner_of[0]: 2 is outside [0, 2)");
  EXPECT_EQ(refusal_with<int32_t>(kLayout.owner_of, -1), "plan: owner_of[0]: -1 is outside [0, 2)");
  EXPECT_EQ(refusal_with<int32_t>(kLayout.instance_begin, 1),
            "plan: instance_begin runs from 1 to 4, num_instances is 4");
  EXPECT_EQ(refusal_with<int32_t>(kLayout.instance_begin + 4, 0),
            "plan: instance_begin[1]: 0 does not follow 0 or passes the 5 instances of the buffer");
  EXPECT_EQ(refusal_with<int32_t>(kLayout.instance_begin + 4, 1 << 30),
            "plan: instance_begin[1]: 1073741824 does not follow 0 or passes the 5 instances of "
            "the buffer");
  EXPECT_EQ(refusal_with<int32_t>(first, 2), "plan: instance 0: rank 2 is outside [0, 2)");
  EXPECT_EQ(refusal_with<int32_t>(first + 16 + 4, 1),
            "plan: instance 1: slot 1 is outside [-1, 1)");
  EXPECT_EQ(refusal_with<int32_t>(first + 4, -2), "plan: instance 0: slot -2 is outside [-1, 1)");
  EXPECT_EQ(refusal_with<int32_t>(first + 8, -1),
            "plan: instance 0: 3 blocks from -1 on are outside [0, 2147483647]");
  EXPECT_EQ(refusal_with<int32_t>(first + 16 + 12, 0x7fffffff),
            "plan: instance 1: 2147483647 blocks from 3 on are outside [0, 2147483647]");
  EXPECT_EQ(refusal_with<int32_t>(first + 12, 0x7fffffff),
            "plan: 2147483651 blocks, at most 2147483647 are supported");
  EXPECT_EQ(refusal_with<int32_t>(first + 64, 1),
            "plan: instance 4 beyond the 4 in use is not zero");
  EXPECT_EQ(refusal_with<int32_t>(kLayout.slot_expert + 4, 3),
            "plan: slot_expert[1]: 3 is outside [-1, 3)");
  EXPECT_EQ(refusal_with<int32_t>(kLayout.slot_expert, -2),
            "plan: slot_expert[0]: -2 is outside [-1, 3)");
  EXPECT_EQ(refusal_with<uint8_t>(kLayout.slot_resident + 1, 2),
            "plan: slot_resident[1]: 2 is neither 0 nor 1");
}

// Whatever the bytes, the answer is a refusal or a plan that is safe to walk.
TEST(PlanBytes, RandomDamageWithAGoodHashIsSafeToWalk) {
  Rng rng(20);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = example_bytes();
    for (uint32_t hits = 1 + rng.below(3); hits > 0; --hits) {
      const size_t offset = 64 + 4 * rng.below(29);
      put(bytes, offset, static_cast<int32_t>(rng.below(8)) - 2);
    }
    reseal(bytes);
    if (refusal(bytes) != "accepted") continue;
    ++accepted;
    const Plan plan = Plan::from_bytes(bytes);
    std::vector<int32_t> blocks(2, -1);
    plan.blocks_per_rank(blocks);
    EXPECT_GE(blocks[0] + blocks[1], 0);
    for (int32_t e = 0; e < 3; ++e) EXPECT_GE(plan.instances_of(e).size(), 1u);
  }
  EXPECT_GT(accepted, 100) << "the damage must reach past the first check";
}

}  // namespace
}  // namespace megaflux
