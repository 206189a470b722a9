// JSON and .npz of SGLang and vLLM.
#include <gtest/gtest.h>

#include "convert/import.h"
#include "convert/json_arrays.h"
#include "trace/trace_fixture.h"

namespace megaflux::convert {
namespace {

Import import_text(std::string_view text, const ImportSettings& settings = {}) {
  return import_bytes(bytes_of(text), settings, "a.json");
}

void refused(std::string_view text, std::vector<std::string> words,
             const ImportSettings& settings = {}) {
  words.push_back("a.json");
  expect_bad_input([&] { import_text(text, settings); }, words);
}

TEST(ImportJson, SglangStatistics) {
  const Import import = import_text(R"({"rank": 0, "average_utilization_rate_over_window": 0.7,
      "logical_count": [[[4, 0.0, 2], [3, 3e0, 0]], [[0, 0, 0], [0, 0, 0]]]})");
  EXPECT_EQ(import.trace.data().loads, (std::vector<int32_t>{4, 0, 2, 3, 3, 0}));
  ASSERT_EQ(import.notes.size(), 1u);
  EXPECT_EQ(import.notes[0], "1 of 2 steps hold no row and are left out");
}

TEST(ImportJson, SglangPasses) {
  const Trace trace = import_text(R"({"records": [
      {"forward_pass_id": 7, "rank": 0, "gatherer_key": "primary", "extra": {"a": [1, {"b": 2}]},
       "global_physical_count": [[3, 1, 2], [0, 0, 5]]},
      {"forward_pass_id": 8, "rank": 0, "global_physical_count": [[1, 0, 0], [0, 1, 0]]},
      {"forward_pass_id": 7, "rank": 1, "global_physical_count": [[0, 0, 1], [2, 0, 0]]}],
      "last_physical_to_logical_map": [[0, 1, 0], [1, 0, 0]]})")
                          .trace;
  // Layer 0: expert 0 stands in places 0 and 2; layer 1: in places 1 and 2.
  EXPECT_EQ(trace.data().loads, (std::vector<int32_t>{6, 1, 5, 2, 1, 0, 1, 0}));
  EXPECT_TRUE(trace.meta().time_ordered);
}

TEST(ImportJson, SglangTokens) {
  const Trace trace = import_text(R"({"records": [
      {"forward_pass_id": 1, "rank": 3, "input_ids": [5, 6],
       "topk_ids_of_layer": [[[0, 2, -1], [1, 0, -1]], [[2, 1, -1], [0, 1, -1]]]},
      {"forward_pass_id": 2, "rank": 3, "input_ids": [7],
       "topk_ids_of_layer": [[[1, 2, -1]], [[0, 2, -1]]]}],
      "last_physical_to_logical_map": [[0, 1, 2], [2, 1, 0]]})")
                          .trace;
  EXPECT_EQ(trace.meta().num_experts, 3);
  EXPECT_EQ(trace.meta().topk, 2);
  EXPECT_EQ(trace.data().step_offsets, (std::vector<int64_t>{0, 2, 3}));
  EXPECT_EQ(trace.data().topk_ids, (std::vector<int16_t>{0, 2, 0, 1, 1, 0, 2, 1, 1, 2, 2, 0}));
}

TEST(ImportJson, VllmLoadsAreMappedBack) {
  const Trace window = import_text(R"({"physical_to_logical_map": [[0, 1, 0], [0, 0, 1]],
      "expert_load_window": [[[3, 1, 2], [1, 1, 4]], [[0, 1, 0], [0, 0, 1]]]})")
                           .trace;
  EXPECT_EQ(window.data().loads, (std::vector<int32_t>{5, 1, 2, 4, 0, 1, 0, 1}));
  const Trace pass =
      import_text(R"({"expert_load_pass": [[3, 1, 2]], "physical_to_logical_map": [0, 1, 0]})")
          .trace;
  EXPECT_EQ(pass.data().loads, (std::vector<int32_t>{5, 1}));
  // Without a map the loads of vLLM's policies are logical already.
  EXPECT_EQ(import_text(R"({"expert_load": [[3, 1, 2]]})").trace.meta().num_experts, 3);
}

TEST(ImportJson, VllmRoutedExperts) {
  const Trace trace =
      import_text(R"({"routed_experts": [[[0, 2], [1, 0]], [[2, 1], [0, 3]]]})").trace;
  EXPECT_EQ(trace.num_layers(), 2);
  EXPECT_EQ(trace.loads(0, 1, 1).totals()[3], 1);
}

TEST(ImportJson, ABareListIsAnArray) {
  EXPECT_EQ(import_text("[[4, 0, 2], [3, 3, 0]]").trace.num_layers(), 2);
  refused("[[0, 3], [2, 1]]", {"--kind"});
  EXPECT_EQ(import_text("[[0, 3], [2, 1]]", {.kind = Kind::kTopk}).trace.num_tokens(0), 2);
}

TEST(ImportJson, NpzWithTheSameNames) {
  const auto npz = encode_stored_zip(std::vector{
      npy_entry<int64_t>("logical_count", NpyType::kInt64, {1, 1, 3}, {3, 0, 9}),
      npy_entry<float>("average_utilization_rate_over_window", NpyType::kFloat32, {}, {0.5f})});
  EXPECT_EQ(import_bytes(npz, {}, "a.npz").trace.data().loads, (std::vector<int32_t>{3, 0, 9}));
}

TEST(ImportJson, BadInputNamesTheArray) {
  refused("{", {"no JSON from byte"});
  refused("{}", {"no array", "logical_count", "expert_load_window"});
  refused("3", {"no array"}, {.format = Format::kSglang});
  refused(R"({"logical_count": 3})", {"logical_count", "[step, layer, expert]"});
  refused(R"({"logical_count": [[1, 2], [3]]})", {"logical_count", "a list of 1", "2"});
  refused(R"({"logical_count": [[1, 2], 3]})", {"a number where the others have a list"});
  refused(R"({"logical_count": [1, [2]]})", {"a list where the others have a number"});
  refused(R"({"logical_count": [[[[[[[[[1]]]]]]]]]})", {"8 levels"});
  refused(R"({"logical_count": [[1, "2"]]})", {"text among numbers"});
  refused(R"({"logical_count": [[1, null]]})", {"null among numbers"});
  refused(R"({"logical_count": [[1, {}]]})", {"an object among numbers"});
  refused(R"({"logical_count": [[1, 2.5]]})", {"2.5", "no whole number"});
  refused(R"({"logical_count": [[1, 1e300]]})", {"no whole number"});
  refused(R"({"logical_count": [[1, 99999999999]]})", {"99999999999", "2147483647"});
  refused(R"({"logical_count": [[1, -1]]})", {"-1", "negative"});
  refused(R"({"logical_count": [[1]], "logical_count": [[1]]})", {"stands twice"});
  refused(R"({"logical_count": [[1]], "topk_ids": [[1]]})", {"both"});
  refused(R"({"logical_count": [[], []]})", {"0 experts"});
  refused(R"({"expert_load_pass": [[1, 2]]})", {"expert_load_pass", "physical_to_logical_map"});
}

TEST(ImportJson, BadMaps) {
  const auto of_map = [](const std::string& map) {
    return R"({"expert_load_pass": [[1, 2, 3]], "physical_to_logical_map": )" + map + "}";
  };
  refused(of_map("[[0, 1]]"), {"3 physical experts", "2"});
  refused(of_map("[[0, 1, 1], [0, 1, 1]]"), {"1 layers", "2"});
  refused(of_map("[[0, 1, 5]]"), {"3 places for 6 experts"});
  refused(of_map("[[0, 1, 4096]]"), {"4096", "4095"});
  refused(of_map("[[0, 1, -2]]"), {"-2"});
  refused(of_map("[[0, 1, -1]]"), {"physical expert 2", "no expert"});
  refused(of_map("[[[0, 1, 1]]]"), {"[1, 1, 3]", "[layer, place]"});
  refused(of_map("[[0, 1, 1]]"), {"places for 9 experts"}, {.num_experts = 9});
  refused(of_map("[[0, 1, 2]]"), {"expert 2", "1]"}, {.num_experts = 2});
  refused(R"({"topk_ids_of_layer": [[[3]]], "physical_to_logical_map": [[0, 1, 2]]})",
          {"physical expert 3", "[-1, 2]"});
}

// Every count fits, their sum over the places of an expert does not.
TEST(ImportJson, SumsOverPlacesAreChecked) {
  refused(R"({"physical_to_logical_map": [0, 0], "expert_load_pass": [[2147483647, 1]]})",
          {"layer 0, expert 0", "more than 2147483647 rows"});
}

TEST(ImportJson, BadRecords) {
  refused(R"({"records": [{"global_physical_count": [[1]]}]})",
          {"record 0", "physical_to_logical"});
  const auto with_map = [](const std::string& records) {
    return R"({"last_physical_to_logical_map": [0, 0], "records": [)" + records + "]}";
  };
  refused(with_map(R"({"rank": 0})"), {"record 0", "global_physical_count is missing"});
  refused(with_map(R"({"global_physical_count": [[1, 2]]}, {"rank": 1})"), {"record 1", "missing"});
  refused(with_map(R"({"global_physical_count": [1, 2]})"),
          {"record 0", "[layer, physical expert]"});
  refused(
      with_map(
          R"({"global_physical_count": [[1, 2]]}, {"global_physical_count": [[1, 2], [1, 2]]})"),
      {"shapes"});
  refused(
      with_map(
          R"({"rank": 0, "topk_ids_of_layer": [[[0]]]}, {"rank": 1, "topk_ids_of_layer": [[[0]]]})"),
      {"record 1", "rank 1", "rank 0"});
}

TEST(JsonArrays, DeepNestingIsPassedOver) {
  const std::string open(100000, '[');
  const std::string close(100000, ']');
  const auto arrays = parse_json_arrays(R"({"x": )" + open + close + R"(, "y": [1]})", "a",
                                        [](std::string_view key) { return key == "y"; });
  EXPECT_EQ(arrays.top.at("y").values, std::vector<int32_t>{1});
}

}  // namespace
}  // namespace megaflux::convert
