// The host's side of a group of devices, without a device: configurations, words and statuses.
#include "megaflux/comm/device_status.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/comm/entry_exit.h"

namespace megaflux {
namespace {

std::string refusal_of(const DeviceGroupConfig& config) {
  try {
    checked(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.what();
  }
  return "";
}

TEST(DeviceGroupConfig, NamesFieldValueAndLimit) {
  EXPECT_EQ(refusal_of({.num_ranks = 1}), "");
  EXPECT_EQ(refusal_of({.num_ranks = 128}), "");
  EXPECT_EQ(refusal_of({.num_ranks = 0}),
            "num_ranks: 0 is outside [1, 128], the ranks of a group of devices");
  EXPECT_EQ(refusal_of({.num_ranks = 129}),
            "num_ranks: 129 is outside [1, 128], the ranks of a group of devices");
  EXPECT_EQ(refusal_of({.payload_words = -3}), "payload_words: -3 is negative");
  EXPECT_EQ(refusal_of({.waits = {.deadline = std::chrono::milliseconds(0)}}),
            "waits.deadline: 0 ms is not positive");
  EXPECT_EQ(refusal_of({.waits = {.deadline_scale = -1}}),
            "waits.deadline_scale: -1 is not positive");
}

// Kernels write flags as vectors of 16 bytes, and words on lines of their own.
TEST(LaunchFields, LieWhereKernelsCanReachThem) {
  Layout layout;
  layout.add<char>("odd", 3);
  const LaunchFields fields = add_launch_fields(layout, 5);
  EXPECT_EQ(fields.flags.count, 10u);
  EXPECT_EQ(fields.flags.offset % sizeof(EntryFlag), 0u);
  EXPECT_EQ(layout.counters().size(), 1u);
  EXPECT_LT(fields.flags.offset + fields.flags.count * sizeof(EntryFlag),
            fields.outcome.offset + sizeof(uint32_t));
}

FailureRecord timeout_of(int32_t rank) {
  FailureRecord failure{.kind = FailureKind::kTimeout, .rank = rank, .epoch = 7};
  failure.peer = 3;
  failure.expected = 7;
  failure.seen = 6;
  failure.cta = 4;
  return failure;
}

TEST(DeviceStatus, AFailureIsToldUntilTheReset) {
  std::vector<DeviceStatus> statuses(3);
  EXPECT_FALSE(is_poisoned(statuses));
  EXPECT_EQ(failure_text(statuses), "");
  std::optional<uint32_t> told;
  EXPECT_NO_THROW(check_statuses(statuses, told));
  EXPECT_NO_THROW(refuse_poisoned(statuses));
  statuses[1].failure = timeout_of(2);
  statuses[1].failed = 1 + 2 * kMaxRoles;
  const std::string text =
      "rank 2 (compute, CTA 4) timed out in epoch 7: waiting for entry of rank 3, expected 7, saw "
      "6";
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(is_poisoned(statuses));
    EXPECT_EQ(failure_text(statuses), text);
    for (const bool refuses : {true, false}) {
      try {
        refuses ? refuse_poisoned(statuses) : check_statuses(statuses, told);
        FAIL();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kTimeout);
        EXPECT_EQ(error.what(), "the group is poisoned until recover(), because " + text);
      }
    }
  }
  reset_statuses(statuses);
  EXPECT_FALSE(is_poisoned(statuses));
  EXPECT_NO_THROW(check_statuses(statuses, told));
}

TEST(DeviceStatus, ARankOutOfStepIsWordedAsThat) {
  FailureRecord failure = timeout_of(0);
  failure.kind = FailureKind::kOutOfStep;
  failure.seen = 9;
  EXPECT_EQ(describe(failure),
            "rank 0 (compute, CTA 4) is out of step in epoch 7: waiting for entry of rank 3, "
            "expected 7, saw 9");
}

void disagree(DeviceStatus& status, uint32_t epoch, uint64_t theirs = 5) {
  status.verdict = {EntryFault::kLayer, 1, LaunchOp::kForward, theirs, 3};
  status.epoch = epoch;
  status.disagreed = 1;
}

// The epoch that check_statuses tells of; nullopt if it tells nothing.
std::optional<uint32_t> epoch_told(std::vector<DeviceStatus>& statuses,
                                   std::optional<uint32_t>& told) {
  try {
    check_statuses(statuses, told);
  } catch (const AgreedError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("epoch " + std::to_string(told.value())), std::string::npos) << text;
    return told;
  }
  return std::nullopt;
}

// The first launch by signed difference is told, once, as an error that leaves the group usable.
TEST(DeviceStatus, AVerdictIsToldOnce) {
  std::vector<DeviceStatus> statuses(2);
  std::optional<uint32_t> told;
  disagree(statuses[0], 2);
  disagree(statuses[1], 0xffffffffu, static_cast<uint64_t>(int64_t{-4}));
  EXPECT_NO_THROW(refuse_poisoned(statuses)) << "a launch is not refused for it";
  try {
    check_statuses(statuses, told);
    FAIL();
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDisagree);
    EXPECT_STREQ(error.what(),
                 "ranks disagree: rank 1 entered epoch 4294967295 with layer -4, rank 0 with layer "
                 "3");
  }
  EXPECT_EQ(epoch_told(statuses, told), std::nullopt);
  EXPECT_FALSE(is_poisoned(statuses));
}

// Ranks tell of one launch at different moments, and the host may look in between.
TEST(DeviceStatus, AVerdictThatArrivesRankByRankIsToldOnce) {
  std::vector<DeviceStatus> statuses(3);
  std::optional<uint32_t> told;
  disagree(statuses[1], 0xffffffffu);
  EXPECT_EQ(epoch_told(statuses, told), 0xffffffffu);
  disagree(statuses[0], 0xffffffffu);
  EXPECT_EQ(epoch_told(statuses, told), std::nullopt);
  EXPECT_EQ(statuses[0].disagreed, 0u) << "the rank may tell the next one";
  // The last rank comes when another has the next verdict already.
  disagree(statuses[2], 0xffffffffu);
  disagree(statuses[0], 4);
  EXPECT_EQ(epoch_told(statuses, told), 4u);
  EXPECT_EQ(epoch_told(statuses, told), std::nullopt);
  // More than 2^31 launches on, the epoch told last seems to lie ahead.
  disagree(statuses[1], 0x80000009u);
  EXPECT_EQ(epoch_told(statuses, told), 0x80000009u);
}

TEST(DeviceStatus, ARefusalWithoutTextNamesTheRank) {
  std::vector<DeviceStatus> statuses(1);
  statuses[0].verdict = {EntryFault::kRefused, 2, LaunchOp::kHead,
                         1 + static_cast<uint64_t>(ErrorCode::kBadInput), 0};
  statuses[0].epoch = 9;
  statuses[0].disagreed = 1;
  try {
    std::optional<uint32_t> told;
    check_statuses(statuses, told);
    FAIL();
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_STREQ(error.what(), "rank 2 refused to enter epoch 9");
  }
}

TEST(DeviceStatus, AFailureGoesBeforeAVerdict) {
  std::vector<DeviceStatus> statuses(1);
  statuses[0].verdict = {EntryFault::kOp, 1, LaunchOp::kHead, 3, 1};
  statuses[0].disagreed = 1;
  statuses[0].failure = timeout_of(0);
  statuses[0].failed = 1;
  try {
    std::optional<uint32_t> told;
    check_statuses(statuses, told);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  }
}

}  // namespace
}  // namespace megaflux
