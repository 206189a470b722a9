#include <gtest/gtest.h>

#include "convert/csv_recording.h"
#include "trace/trace_fixture.h"

namespace megaflux::convert {
namespace {

Trace import_csv(std::string_view text, const ImportSettings& settings = {}) {
  return finish_recording(csv_recording(text, settings, "a.csv"), settings, "a.csv");
}

TEST(ImportCsv, TotalsALine) {
  const Trace one = import_csv("# head\n5, 0,1\r\n2,4,0,\n\n");
  EXPECT_EQ(one.num_steps(), 2);
  EXPECT_EQ(one.data().loads, (std::vector<int32_t>{5, 0, 1, 2, 4, 0}));
  const Trace two = import_csv("1,2\n3,4\n5,6\n7,8\n", {.layers = {3, 9}});
  EXPECT_EQ(two.num_steps(), 2);
  EXPECT_EQ(two.loads(1, 1, 1).totals()[0], 7);
}

TEST(ImportCsv, LongForm) {
  // Any order of columns and lines; cells that no line names are zero.
  const Trace trace =
      import_csv("count,expert,layer,step\n7,2,20,5\n1,0,20,5\n3,1,10,5\n9,1,10,8\n");
  EXPECT_EQ(trace.num_steps(), 2);
  EXPECT_EQ(trace.meta().layers, (std::vector<int32_t>{10, 20}));
  EXPECT_EQ(trace.data().loads, (std::vector<int32_t>{0, 3, 0, 1, 0, 7, 0, 9, 0, 0, 0, 0}));
}

TEST(ImportCsv, LongFormWithSources) {
  const Trace trace =
      import_csv("step,layer,expert,rank,rows\n0,1,0,1,5\n0,1,2,0,4\n", {.num_experts = 4});
  EXPECT_EQ(trace.meta().num_ranks, 2);
  EXPECT_EQ(trace.loads(0, 0, 2).rows(1, 0), 5);
  EXPECT_EQ(trace.meta().num_experts, 4);
}

TEST(ImportCsv, BadInputNamesLineAndValue) {
  const auto refused = [](std::string_view text, std::vector<std::string> words,
                          const ImportSettings& settings = {}) {
    words.push_back("a.csv");
    expect_bad_input([&] { import_csv(text, settings); }, words);
  };
  refused("", {"no numbers"});
  refused("1,2\n3", {"line 2", "1 columns", "2"});
  refused("1,-2", {"line 1", "column 2", "-2"});
  refused("1,x", {"'x'"});
  refused("1,2\n3,4\n5,6", {"3 lines", "2 layers"}, {.layers = {1, 2}});
  refused("step,layer,expert\n", {"lacks a column", "step,layer,expert[,source],count"});
  refused("step,layer,colour,count\n", {"'colour'"});
  refused("step,step,layer,expert,count\n", {"'step' stands twice"});
  refused("step,layer,expert,count\n", {"no line"});
  refused("step,layer,expert,count\n1,2,3\n", {"line 2", "3 columns", "4"});
  refused("step,layer,expert,count\n1,2,3,4,5\n", {"line 2", "more than the 4"});
  refused("step,layer,expert,count\n1,2,4096,4\n", {"line 2", "column 3", "4096", "4095"});
  refused("step,layer,expert,source,count\n1,2,3,1024,4\n", {"column 4", "1024", "1023"});
  refused("step,layer,expert,count\n0,0,1,4\n0,0,1,4\n", {"expert 1", "stands twice"});
  refused("step,layer,expert,count\n0,0,5,4\n", {"expert 5", "--num-experts 5"},
          {.num_experts = 5});
  refused("step,layer,expert,count\n0,3000000,5,4\n", {"layers", "3000000"});
  refused("5,6", {"--kind topk"}, {.kind = Kind::kTopk});
}

TEST(ImportCsv, AFewLinesDoNotMakeAHugeTable) {
  expect_bad_input(
      [] { import_csv("step,layer,expert,source,count\n0,0,4095,1023,1\n1,1,4095,1023,1\n"); },
      {"2 lines", "[2, 2, 1024, 4096]", "1048576 cells"});
  expect_bad_input([] { import_csv("step,layer,expert,source,count\n0,0,4095,1023,1\n"); },
                   {"1 lines", "[1, 1, 1024, 4096]", "1048576 cells"});
}

}  // namespace
}  // namespace megaflux::convert
