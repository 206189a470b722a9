// Every file of the corpus through its reader once more, whatever the compiler.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "fuzz/fuzz_targets.h"

namespace megaflux::fuzz {
namespace {

namespace fs = std::filesystem;

const fs::path kCorpus = fs::path(MF_SOURCE_DIR) / "tests/fuzz/corpus";

std::string file_text(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class Corpus : public ::testing::TestWithParam<Target> {};

TEST_P(Corpus, EveryFileIsReadOrRefused) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kCorpus / GetParam().name)) {
    SCOPED_TRACE(entry.path().string());
    const std::string text = file_text(entry.path());
    GetParam().read(std::as_bytes(std::span(text)));
    ++files;
  }
  EXPECT_GE(files, 5);
}

// Cut anywhere, a file is refused or read, never worse.
TEST_P(Corpus, EveryPrefixOfAFile) {
  for (const auto& entry : fs::directory_iterator(kCorpus / GetParam().name)) {
    const std::string text = file_text(entry.path());
    const size_t stride = text.size() / 64 + 1;
    for (size_t size = 0; size < text.size(); size += stride) {
      GetParam().read(std::as_bytes(std::span(text).first(size)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Readers, Corpus, ::testing::ValuesIn(kTargets),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(CorpusFolders, AreTheTargets) {
  std::set<std::string> folders, names;
  for (const auto& entry : fs::directory_iterator(kCorpus)) {
    if (entry.is_directory()) folders.insert(entry.path().filename().string());
  }
  for (const Target& target : kTargets) names.insert(std::string(target.name));
  EXPECT_EQ(folders, names);
}

}  // namespace
}  // namespace megaflux::fuzz
