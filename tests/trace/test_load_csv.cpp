#include <gtest/gtest.h>

#include "megaflux/trace/load_csv.h"
#include "trace/trace_fixture.h"

namespace megaflux {
namespace {

TEST(LoadCsv, HeaderExamples) {
  const LoadTable totals = parse_load_csv("600,560,120,120,20,10,10,10", "x.csv", 8);
  EXPECT_EQ(totals.num_experts(), 8);
  EXPECT_EQ(totals.num_ranks(), 8);
  EXPECT_EQ(totals.totals()[1], 560);
  EXPECT_FALSE(totals.has_sources());
  const LoadTable sources = parse_load_csv("5,0,1\n4,2,0\n", "x.csv", 2);
  EXPECT_TRUE(sources.has_sources());
  EXPECT_EQ(sources.rows(1, 0), 4);
  EXPECT_EQ(sources.totals()[0], 9);
}

TEST(LoadCsv, BlanksCommentsAndLineEnds) {
  const auto rows = parse_csv("# made by hand\r\n\r\n 1,\t2 , 3,\r\n\n4,5,6", "x.csv");
  EXPECT_EQ(rows, (std::vector<std::vector<int64_t>>{{1, 2, 3}, {4, 5, 6}}));
}

TEST(LoadCsv, OneLineOfOneRankHasItsSource) {
  EXPECT_TRUE(parse_load_csv("5,0,1", "x.csv", 1).has_sources());
}

TEST(LoadCsv, ByteOrderMarkOfSpreadsheets) {
  const auto rows = parse_csv(
      "\xef\xbb\xbf"
      "7,8\r\n",
      "x.csv");
  EXPECT_EQ(rows, (std::vector<std::vector<int64_t>>{{7, 8}}));
}

TEST(LoadCsv, OtherFilesAreToldFromNumbers) {
  const auto refused = [](std::string_view text, std::vector<std::string> words) {
    words.push_back("x.csv");
    expect_bad_input([&] { parse_csv(text, "x.csv"); }, words);
  };
  refused("expert0,expert1\n3,4\n", {"line 1, column 1", "'expert0'", "# begins a line to skip"});
  refused("3;4", {"'3;4'", "commas separate"});
  refused("PK\x03\x04 and more", {"zip file", ".npz"});
  refused(std::string_view("\0\x1b[31m", 6), {"'??[31m'"});
}

TEST(LoadCsv, BadInputNamesLineAndColumn) {
  const auto refused = [](std::string_view text, std::vector<std::string> words) {
    words.push_back("x.csv");
    expect_bad_input([&] { parse_load_csv(text, "x.csv", 2); }, words);
  };
  refused("1,2\n3,x\n", {"line 2, column 2", "'x'", "whole number"});
  refused("# c\n\n1,2\n3,4.5\n", {"line 4, column 2", "'4.5'"});
  refused("1,,2", {"line 1, column 2", "''"});
  refused(",", {"line 1, column 1"});
  refused("1,-2", {"line 1, column 2", "-2", "[0, 2147483647]"});
  refused("1,2147483648", {"column 2", "2147483648", "2147483647"});
  refused("1,99999999999999999999999", {"column 2", "99999999999999999999999"});
  refused("1,1e3", {"column 2", "'1e3'"});
  refused("1,+3", {"column 2", "'+3'"});
  refused("1,2 3", {"column 2", "'2 3'"});
  refused("1,2\n3\n", {"line 2", "1 columns", "has 2"});
  refused("1,2\n3,4\n5,6\n", {"3 lines", "1 (totals) or 2", "2 ranks"});
  refused("", {"no numbers"});
  refused("# nothing\n\n", {"no numbers"});
  refused("2147483647,1", {"2147483648 rows", "2147483647"});
  std::string wide = "1";
  for (int i = 0; i < 4096; ++i) wide += ",1";
  refused(wide, {"line 1", "4096 columns"});
  std::string tall;
  for (int i = 0; i < 1025; ++i) tall += "1\n";
  refused(tall, {"line 1025", "1024 lines"});
  refused(std::string(100, 'z'), {std::string(32, 'z') + "'"});
}

TEST(LoadCsv, Files) {
  const TempFolder folder;
  write_bytes(folder.file("loads.csv"), bytes_of("3,4\n5,6\n"));
  EXPECT_EQ(read_load_csv(folder.file("loads.csv"), 2).total_rows(), 18);
  EXPECT_EQ(read_csv(folder.file("loads.csv")).size(), 2u);
  expect_bad_input([&] { read_csv(folder.file("none.csv")); }, {"none.csv", "cannot be read"});
}

}  // namespace
}  // namespace megaflux
