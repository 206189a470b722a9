// Ranks of devices that never arrive, die, lose a signal or disagree: every such launch ends with
// an error that names the fault, on every rank; the group refuses work until recover() where it
// must, and works again.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "comm/toy_rig_cuda.h"
#include "megaflux/comm/local_group_cuda.h"

namespace megaflux {
namespace {

using namespace std::chrono_literals;
using test::add_toy_fields;
using test::error_of;
using test::ToyFault;
using test::ToyFields;
using test::ToyRig;

class DeviceFault : public ::testing::TestWithParam<int32_t> {
 protected:
  DeviceFault()
      : fields_(add_toy_fields(layout_, kRanks)),
        group_(config(), layout_),
        rig_(group_, fields_) {}

  void SetUp() override { MF_NEEDS_GPUS(GetParam()); }

  static LocalConfig config() {
    LocalConfig config;
    config.payload_words = test::kToyPayload;
    config.start_epoch = 0xfffffffdu;
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      config.device_of.push_back(gpu::num_gpus() < GetParam() ? 0 : rank % GetParam());
    }
    config.waits.deadline = 200ms;
    return config;
  }
  void run_sound(int num_launches) {
    const int64_t before = rig_.report().num_entered;
    rig_.launch_many(num_launches);
    group_.synchronize();
    rig_.expect_right(before + int64_t{num_launches} * kRanks);
  }
  // One launch with the fault, then what synchronize() throws.
  std::pair<ErrorCode, std::string> error_with(ToyFault fault, int32_t faulty_rank) {
    rig_.launch({.fault = fault, .faulty_rank = faulty_rank});
    return error_of([&] { group_.synchronize(); });
  }
  // The group must be poisoned by `text`, refuse to launch, and work after recover().
  void expect_poisoned_then_recover(const std::string& text) {
    ASSERT_TRUE(group_.is_poisoned());
    EXPECT_NE(group_.failure_text().find(text), std::string::npos) << group_.failure_text();
    const auto [code, words] = error_of([&] { rig_.launch(); });
    EXPECT_EQ(code, ErrorCode::kTimeout);
    EXPECT_NE(words.find(text), std::string::npos) << words;
    group_.recover();
    EXPECT_FALSE(group_.is_poisoned());
    EXPECT_EQ(group_.failure_text(), "");
    run_sound(7);
  }

  static constexpr int32_t kRanks = 4;
  Layout layout_;
  ToyFields fields_;
  LocalGroup group_;
  ToyRig rig_;
};

TEST_P(DeviceFault, ARankNeverArrives) {
  for (int round = 0; round < 2; ++round) {
    run_sound(round);
    const auto [code, text] = error_with(ToyFault::kNeverArrives, 2);
    EXPECT_EQ(code, ErrorCode::kTimeout);
    EXPECT_NE(text.find("timed out in epoch"), std::string::npos) << text;
    expect_poisoned_then_recover("waiting for entry of rank 2");
  }
}

TEST_P(DeviceFault, ARankDiesInside) {
  EXPECT_EQ(error_with(ToyFault::kDiesInside, 3).first, ErrorCode::kTimeout);
  // Rank 3's pushes are missing before its pulled is.
  expect_poisoned_then_recover(
      "(compute, CTA 0) timed out in epoch 4294967294: waiting for y_count");
}

TEST_P(DeviceFault, ASignalIsLost) {
  run_sound(1);
  const auto [code, text] = error_with(ToyFault::kLosesASignal, 3);
  EXPECT_EQ(code, ErrorCode::kTimeout);
  // Rank 0 waits for the sum, the others for rank 0: whose clock runs out first is open.
  const uint32_t expected = 4 * test::toy_adds(0xffffffffu);
  const std::string sum =
      "rank 0 (compute, CTA 0) timed out in epoch 4294967295: waiting for "
      "y_count, expected " +
      std::to_string(expected) + ", saw " + std::to_string(expected - 1);
  const bool names_sum = text.find(sum) != std::string::npos;
  expect_poisoned_then_recover(names_sum ? sum : "waiting for pulled of rank 0");
}

// Launches that were on their way behind the failed one touch nothing and end at once.
TEST_P(DeviceFault, LaunchesBehindAFailureEndAtOnce) {
  rig_.launch({.fault = ToyFault::kNeverArrives, .faulty_rank = 1});
  const auto begin = std::chrono::steady_clock::now();
  try {
    rig_.launch_many(200);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(),
              ErrorCode::kTimeout);  // if the failure is there before the last of them
  }
  EXPECT_EQ(error_of([&] { group_.synchronize(); }).first, ErrorCode::kTimeout);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  EXPECT_EQ(rig_.report().num_entered, 0u);
  expect_poisoned_then_recover("waiting for entry of rank 1");
}

TEST_P(DeviceFault, DisagreementNamesFieldAndBothValues) {
  struct Case {
    ToyFault fault;
    ErrorCode code;
    std::string text;
  };
  const Case cases[] = {
      {ToyFault::kOtherOp, ErrorCode::kDisagree, "with op backward, rank 0 with op forward"},
      {ToyFault::kOtherLayer, ErrorCode::kDisagree, "with layer -4, rank 0 with layer 7"},
      {ToyFault::kOtherPlan, ErrorCode::kDisagree,
       "with plan hash 0x123456789abcdef, rank 0 with plan hash 0x10"},
      {ToyFault::kOtherConfig, ErrorCode::kDisagree,
       "with config hash 0xfedcba9876543210, rank 0 with config hash 0x11"},
  };
  uint32_t epoch = 0xfffffffdu;
  for (const Case& odd : cases) {
    const auto [code, text] = error_with(odd.fault, 2);
    ++epoch;
    EXPECT_EQ(code, odd.code);
    const std::string field = odd.fault == ToyFault::kOtherLayer
                                  ? "with layer -4, rank 0 with layer " + std::to_string(epoch & 7u)
                                  : odd.text;
    EXPECT_EQ(text, "ranks disagree: rank 2 entered epoch " + std::to_string(epoch) + " " + field);
    // On every rank, told once, and the group is in step.
    EXPECT_FALSE(group_.is_poisoned());
    group_.check_sound();
    run_sound(3);
    epoch += 3;
  }
  EXPECT_EQ(rig_.report().num_refused, 4u * kRanks);
}

TEST_P(DeviceFault, ARefusalReachesEveryRankAndLeavesTheGroupUsable) {
  for (int round = 0; round < 3; ++round) {
    const auto [code, text] = error_with(ToyFault::kRefuses, 1);
    EXPECT_EQ(code, ErrorCode::kUnsupported);
    EXPECT_NE(text.find("rank 1 refused to enter epoch"), std::string::npos) << text;
    EXPECT_EQ(rig_.report().num_refused, static_cast<uint32_t>((round + 1) * kRanks));
    // An odd number of launches between: a refused launch must have cleared the other bank.
    run_sound(1 + 2 * round);
  }
}

// Whether a verdict is there by the next launch depends on the host, and so differs between
// processes: a launch that it stopped on one of them would be missing on that one alone.
TEST_P(DeviceFault, AVerdictStopsNoLaunchAndTheFirstIsToldOnce) {
  rig_.launch({.fault = ToyFault::kRefuses, .faulty_rank = 1});
  for (size_t i = 0; i < group_.num_devices(); ++i) {
    const CurrentDevice current(group_.device(i));
    MF_CUDA(cudaDeviceSynchronize());  // by now it is there
  }
  EXPECT_NO_THROW(rig_.launch());
  EXPECT_NO_THROW(rig_.launch({.fault = ToyFault::kOtherPlan, .faulty_rank = 1}));
  EXPECT_NO_THROW(rig_.launch());
  EXPECT_EQ(error_of([&] { group_.synchronize(); }).first, ErrorCode::kUnsupported);
  EXPECT_NO_THROW(group_.synchronize());
  rig_.expect_right(2 * kRanks);
  run_sound(2);
}

// An entry of an aborted rank would tell others that its inputs are there, and it would lie where a
// rank that is two launches behind still reads.
TEST_P(DeviceFault, ARankThatHasAbortedPostsNoEntry) {
  run_sound(2);
  rig_.launch({.fault = ToyFault::kNeverArrives, .faulty_rank = 2});
  rig_.launch_many(5);
  EXPECT_EQ(error_of([&] { group_.synchronize(); }).first, ErrorCode::kTimeout);
  const Field<EntryFlag> place = group_.context(0).launch.flags;
  std::vector<EntryFlag> flags(place.count);
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    MF_CUDA(cudaMemcpy(flags.data(), group_.heap().at(rank, place),
                       flags.size() * sizeof(EntryFlag), cudaMemcpyDefault));
    for (const EntryFlag& flag : flags) {
      EXPECT_TRUE(is_reached(0, flag.epoch)) << "epoch " << flag.epoch << " on rank " << rank;
    }
  }
  expect_poisoned_then_recover("waiting for entry of rank 2, expected 0, saw 4294967294");
}

TEST_P(DeviceFault, RecoverIsAllowedOnASoundGroup) {
  for (int round = 0; round < 3; ++round) {
    run_sound(3);
    group_.recover();
  }
  // 2^16 at a time, once around would take 65,536 of them; a few into either half will do.
  run_sound(3);
}

TEST_P(DeviceFault, DelaysDoNotHideAFailure) {
  group_.set_delay_fuzz(5);
  EXPECT_EQ(error_with(ToyFault::kNeverArrives, 0).first, ErrorCode::kTimeout);
  expect_poisoned_then_recover("waiting for entry of rank 0");
}

INSTANTIATE_TEST_SUITE_P(Gpus, DeviceFault, ::testing::Values(1, 2));

}  // namespace
}  // namespace megaflux
