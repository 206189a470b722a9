#include "megaflux/comm/nccl_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include "comm/fake_nccl/fake_nccl.h"
#include "megaflux/base/check.h"

namespace megaflux {
namespace {

std::string refusal_of(int32_t version) {
  try {
    check_nccl_version(version, "/opt/libnccl.so.2");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return error.what();
  }
  return "";
}

TEST(NcclLibrary, VersionsAreSpelledOut) {
  EXPECT_EQ(nccl_version_text(22809), "2.28.9");
  EXPECT_EQ(nccl_version_text(23000), "2.30.0");
  EXPECT_EQ(nccl_version_text(21205), "2.12.5");
}

TEST(NcclLibrary, TakesTheVersionsItWasWrittenAgainst) {
  EXPECT_EQ(refusal_of(22800), "");
  EXPECT_EQ(refusal_of(22809), "");
  EXPECT_EQ(refusal_of(29999), "");
}

TEST(NcclLibrary, NamesFoundAndNeededOtherwise) {
  EXPECT_EQ(refusal_of(22799),
            "NCCL: /opt/libnccl.so.2 is version 2.27.99; needed is 2.28.0 or later, below 3.0.0");
  EXPECT_EQ(refusal_of(30000),
            "NCCL: /opt/libnccl.so.2 is version 3.0.0; needed is 2.28.0 or later, below 3.0.0");
  EXPECT_NE(refusal_of(2604), "");  // as 2.6.4 was counted
}

TEST(NcclLibrary, NamesALibraryThatIsNotThere) {
  try {
    NcclLibrary library("/no/such/libnccl.so");
    GTEST_SKIP() << "this process has an NCCL loaded: " << library.path();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    const std::string text = error.what();
    EXPECT_EQ(text.find("NCCL: no libnccl.so.2 is loaded in this process, and /no/such/libnccl.so "
                        "cannot be opened: "),
              0u)
        << text;
  }
}

TEST(NcclLibrary, NamesAFunctionThatIsMissing) {
  // Any library that is no NCCL.
  try {
    NcclLibrary library("libm.so.6");
    GTEST_SKIP() << "this process has an NCCL loaded: " << library.path();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_STREQ(error.what(), "NCCL: libm.so.6 has no function ncclGetVersion");
  }
}

using namespace std::chrono_literals;

// Calls on a communicator that do not block, in a library that does what the test says.
class NcclDeadline : public ::testing::Test {
 protected:
  NcclDeadline() : nccl_(MF_FAKE_NCCL) {
    fake_ = static_cast<FakeNccl*>(dlsym(dlopen(MF_FAKE_NCCL, RTLD_LAZY), "fake_nccl"));
    *fake_ = {};
  }
  // What call() throws.
  template <typename Call>
  static std::pair<ErrorCode, std::string> error_of(Call&& call) {
    try {
      call();
    } catch (const Error& error) {
      return {error.code(), error.what()};
    }
    return {ErrorCode::kInternal, "no error"};
  }

  NcclLibrary nccl_;
  FakeNccl* fake_ = nullptr;
};

TEST_F(NcclDeadline, ACommunicatorIsAwaitedAndToldNotToBlock) {
  fake_->polls_until_done = 5;
  EXPECT_NE(nccl_.make_comm(nccl_.make_unique_id(), 3, 1, 10s), nullptr);
  EXPECT_EQ(fake_->num_polls, 5);
  EXPECT_EQ(fake_->num_aborts, 0);
  // ncclConfig_t up to `blocking`, as NCCL 2.14 had it.
  EXPECT_EQ(fake_->config_bytes, 20u);
  EXPECT_EQ(fake_->magic, 0xcafebeefu);
  EXPECT_EQ(fake_->config_version, 21400u);
  EXPECT_EQ(fake_->blocking, 0);
  EXPECT_EQ(fake_->rank, 1);
}

TEST_F(NcclDeadline, ACommunicatorWhoseRanksDoNotComeIsBrokenOff) {
  fake_->polls_until_done = -1;
  const auto begin = std::chrono::steady_clock::now();
  const auto [code, text] = error_of([&] { nccl_.make_comm({}, 3, 1, 30ms); });
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 30ms);
  EXPECT_EQ(code, ErrorCode::kTimeout);
  EXPECT_EQ(
      text,
      "rank 1 waited 30 ms for all 3 ranks of a new communicator: a rank is missing or stuck");
  EXPECT_EQ(fake_->num_aborts, 1);
}

TEST_F(NcclDeadline, AnErrorThatComesLateIsTold) {
  fake_->polls_until_done = 2;
  fake_->result = 6;
  const auto [code, text] = error_of([&] { nccl_.make_comm({}, 3, 1, 10s); });
  EXPECT_EQ(code, ErrorCode::kInternal);
  EXPECT_EQ(text.find("ncclCommInitRankConfig: remote process exited (NCCL 2.28.9, "), 0u) << text;
  EXPECT_EQ(fake_->num_aborts, 1);
}

TEST_F(NcclDeadline, AGatherIsAwaitedUpToItsDeadline) {
  NcclComm* const comm = nccl_.make_comm({}, 3, 1, 10s);
  for (const int polls : {0, 4}) {
    fake_->polls_until_done = polls;
    EXPECT_TRUE(nccl_.all_gather({}, comm, nullptr, 10s));
  }
  fake_->polls_until_done = -1;
  EXPECT_FALSE(nccl_.all_gather({}, comm, nullptr, 20ms));
  EXPECT_EQ(fake_->num_aborts, 0) << "whose it is breaks it off";
  nccl_.abort_comm(comm);
  EXPECT_EQ(fake_->num_aborts, 1);
}

}  // namespace
}  // namespace megaflux
