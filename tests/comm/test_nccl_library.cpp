#include "megaflux/comm/nccl_library.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace megaflux
