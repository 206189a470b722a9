#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "megaflux/trace/deflate.h"
#include "megaflux/trace/trace_file.h"
#include "megaflux/trace/trace_meta.h"
#include "trace/trace_fixture.h"

namespace megaflux {
namespace {

std::vector<TracePacking> packings() {
  if (deflate_available()) return {TracePacking::kStored, TracePacking::kDeflated};
  std::cout << "SKIPPED: this build has no libzip, deflated traces are not tested\n";
  return {TracePacking::kStored};
}

TEST(TraceFile, RoundTripOfEveryArray) {
  const TempFolder folder;
  const Trace trace(small_data());
  for (const TracePacking packing : packings()) {
    write_trace(folder.file("a.npz"), trace, packing);
    const Trace again = read_trace(folder.file("a.npz"));
    expect_equal(again.data(), trace.data());
    EXPECT_EQ(encode_trace(again, packing), file_bytes(folder.file("a.npz")));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.file(".")), {}), 1);
  }
}

TEST(TraceFile, OptionalArraysMayBeMissing) {
  TraceData data = small_data();
  for (const bool with_ids : {true, false}) {
    TraceData part{.meta = data.meta, .num_steps = 2};
    if (with_ids) {
      part.topk_ids = data.topk_ids;
      part.step_offsets = data.step_offsets;
      part.rank_offsets = data.rank_offsets;
    } else {
      part.loads = data.loads;
      part.load_ranks = 2;
    }
    const Trace trace(part);
    for (const TracePacking packing : packings()) {
      const Trace again = parse_trace(encode_trace(trace, packing), "test");
      expect_equal(again.data(), trace.data());
      EXPECT_EQ(again.has_ids(), with_ids);
    }
  }
}

// What a user writes by hand: ids, and a meta without the keys that have defaults.
TEST(TraceFile, LeastFile) {
  const auto file = encode_stored_zip(std::vector<ZipInput>{
      meta_entry(R"({"schema":"megaflux.trace/1","num_experts":9,"topk":2,"layers":[5]})"),
      npy_entry<int16_t>("topk_ids", NpyType::kInt16, {3, 1, 2}, {0, 1, 8, -1, 4, 4}),
      npy_entry<int32_t>("notes", NpyType::kInt32, {1}, {7})});
  const Trace trace = parse_trace(file, "test");
  EXPECT_EQ(trace.num_steps(), 1);
  EXPECT_EQ(trace.meta().num_ranks, 1);
  EXPECT_FALSE(trace.meta().time_ordered);
  EXPECT_EQ(trace.num_tokens(0), 3);
  EXPECT_EQ(trace.loads(0, trace.layer_index(5), 3).rows(2, 4), 2);
}

TEST(TraceFile, RanksWithoutOffsetsAreEvenParts) {
  const auto file = encode_stored_zip(std::vector<ZipInput>{
      meta_entry(kSmallMeta),
      npy_entry<int16_t>("topk_ids", NpyType::kInt16, {5, 2, 2}, std::vector<int16_t>(20, 1)),
      npy_entry<int64_t>("step_offsets", NpyType::kInt64, {3}, {0, 3, 5})});
  EXPECT_EQ(parse_trace(file, "test").data().rank_offsets,
            (std::vector<int64_t>{0, 2, 3, 3, 4, 5}));
}

TEST(TraceFile, BadFilesNameFileArrayAndLimit) {
  const auto meta = meta_entry(kSmallMeta);
  const auto loads =
      npy_entry<int32_t>("loads", NpyType::kInt32, {1, 2, 2, 3}, std::vector<int32_t>(12, 1));
  const auto ids =
      npy_entry<int16_t>("topk_ids", NpyType::kInt16, {3, 2, 2}, std::vector<int16_t>(12, 1));
  const auto refused = [](std::vector<ZipInput> inputs, std::vector<std::string> words) {
    words.push_back("x.npz");
    expect_bad_input([&] { parse_trace(encode_stored_zip(inputs), "x.npz"); }, words);
  };
  refused({loads}, {"array meta is missing"});
  refused({meta}, {"neither", "loads", "topk_ids"});
  const auto loads_of = [](NpyType type, std::vector<int64_t> shape, size_t bytes) {
    return npy_entry("loads", type, std::move(shape), std::vector<uint8_t>(bytes, 1));
  };
  refused({meta, loads_of(NpyType::kInt64, {1, 2, 2, 3}, 96)}, {"array loads", "dtype <i8", "<i4"});
  refused({meta, loads_of(NpyType::kInt32, {1, 2, 6}, 48)},
          {"array loads", "shape [1, 2, 6]", "[any, 2, any, 3]"});
  refused({meta, loads_of(NpyType::kInt32, {1, 3, 2, 2}, 48)}, {"array loads", "[1, 3, 2, 2]"});
  refused({meta, loads_of(NpyType::kInt32, {1, 2, 3, 3}, 72)},
          {"array loads", "3 ranks", "num_ranks = 2"});
  refused({meta, loads_of(NpyType::kInt32, {0, 2, 2, 3}, 0)}, {"array loads", "0 steps"});
  refused({meta,
           npy_entry<int32_t>("topk_ids", NpyType::kInt32, {3, 2, 2}, std::vector<int32_t>(12, 1))},
          {"array topk_ids", "dtype <i4", "<i2"});
  refused({meta,
           npy_entry<int16_t>("topk_ids", NpyType::kInt16, {3, 2, 1}, std::vector<int16_t>(6, 1))},
          {"array topk_ids", "shape [3, 2, 1]", "[any, 2, 2]"});
  const auto steps = [](std::vector<int64_t> offsets) {
    return npy_entry("step_offsets", NpyType::kInt64, {static_cast<int64_t>(offsets.size())},
                     offsets);
  };
  refused({meta, loads, steps({0, 1})}, {"step_offsets without topk_ids"});
  refused({meta, ids, steps({0})}, {"array step_offsets", "1 elements", "at least 2"});
  refused({meta, ids, steps({0, int64_t{1} << 62, 3})}, {"step_offsets", "[0, 3 tokens]"});
  refused({meta, ids, steps({0, 2, 1, 3})}, {"step_offsets", "falls from 2 to 1"});
  refused({meta, loads, ids, steps({0, 1, 3})}, {"step_offsets", "2 steps", "loads has 1"});
  refused({meta, loads, npy_entry<uint8_t>("flags", NpyType::kUint8, {2, 2}, {0, 0, 0, 0})},
          {"array flags", "shape [2, 2]", "[1, 2]"});
  refused({meta, loads, ids}, {"loads and topk_ids disagree"});
}

TEST(TraceFile, BadMetaNamesTheKey) {
  const auto refused = [](std::string_view json, std::vector<std::string> words) {
    words.push_back("x.npz");
    expect_bad_input([&] { parse_trace_meta(json, "x.npz"); }, words);
  };
  EXPECT_EQ(parse_trace_meta(kSmallMeta, "x.npz").layers, (std::vector<int32_t>{3, 7}));
  const auto with = [](std::string_view key, std::string_view value) {
    std::string json = R"({"schema":"megaflux.trace/1","num_experts":3,"topk":2,"layers":[3])";
    // A key twice: the last one counts.
    return json.append(",\"").append(key).append("\":").append(value).append("}");
  };
  refused("", {"no JSON object"});
  refused("[1, 2]", {"no JSON object"});
  refused(std::string(100000, '['), {"no JSON object"});
  refused("{\"schema\":\"megaflux.trace/1\"", {"no JSON object"});
  refused("{}", {"schema", "megaflux.trace/1"});
  refused(with("schema", "\"megaflux.trace/2\""), {"schema", "megaflux.trace/2"});
  refused(with("schema", "1"), {"schema", "text expected"});
  refused(R"({"schema":"megaflux.trace/1","topk":2,"layers":[3]})", {"num_experts is missing"});
  refused(R"({"schema":"megaflux.trace/1","topk":2,"num_experts":4})", {"layers", "missing"});
  refused(with("num_experts", "\"3\""), {"num_experts", "string", "whole number"});
  refused(with("num_experts", "3.0"), {"num_experts", "whole number"});
  refused(with("num_experts", "4294967299"), {"num_experts", "4294967299"});
  refused(with("topk", "-1"), {"topk", "-1"});
  refused(with("topk", "18446744073709551615"), {"topk", "18446744073709551615"});
  refused(with("layers", "[3, 3]"), {"layer 3 stands twice"});
  refused(with("layers", "[3, \"4\"]"), {"layers", "string"});
  refused(with("layers", "[]"), {"layers"});
  refused(with("time_ordered", "1"), {"time_ordered", "true or false"});
  refused(with("model", "null"), {"model", "text expected"});
  refused(with("first_step", "-1"), {"first_step", "-1"});
}

TEST(TraceFile, ChunksAreJoined) {
  const TempFolder folder;
  TraceData first = small_data();
  TraceData second = small_data();
  second.meta.first_step = 2;
  write_trace(folder.file("run.000.npz"), Trace(first), TracePacking::kStored);
  write_trace(folder.file("run.001.npz"), Trace(second), TracePacking::kStored);
  const Trace joined = read_trace(folder.file("run.npz"));
  EXPECT_EQ(joined.num_steps(), 4);
  EXPECT_EQ(joined.data().step_offsets, (std::vector<int64_t>{0, 4, 7, 11, 14}));
  EXPECT_EQ(joined.data().instances[12], 2) << "steps of instances count on";
  for (int64_t step = 0; step < 2; ++step) {
    for (int32_t layer = 0; layer < 2; ++layer) {
      const auto one = Trace(first).routing(step, layer, 2);
      const auto other = joined.routing(step + 2, layer, 2);
      for (int32_t p = 0; p < 2; ++p) {
        EXPECT_EQ(one[p].topk_ids, other[p].topk_ids);
        EXPECT_EQ(one[p].topk_weights, other[p].topk_weights);
      }
    }
  }
  // A chunk by its own name is a trace of its own.
  EXPECT_EQ(read_trace(folder.file("run.001.npz")).meta().first_step, 2);

  second.meta.first_step = 3;
  write_trace(folder.file("run.001.npz"), Trace(second), TracePacking::kStored);
  expect_bad_input([&] { read_trace(folder.file("run.npz")); },
                   {"run.001.npz", "first_step: 3", "2 expected"});
  second.meta.first_step = 2;
  second.meta.model = "another";
  write_trace(folder.file("run.001.npz"), Trace(second), TracePacking::kStored);
  expect_bad_input([&] { read_trace(folder.file("run.npz")); }, {"run.001.npz", "meta differs"});
  second = small_data();
  second.meta.first_step = 2;
  second.loads.clear();
  second.load_ranks = 0;
  write_trace(folder.file("run.001.npz"), Trace(second), TracePacking::kStored);
  expect_bad_input([&] { read_trace(folder.file("run.npz")); }, {"run.001.npz", "other arrays"});
}

TEST(TraceFile, FilesThatCannotBeReadOrWritten) {
  const TempFolder folder;
  expect_bad_input([&] { read_trace(folder.file("none.npz")); }, {"none.npz", "cannot be read"});
  expect_bad_input([&] { read_trace(folder.file(".")); }, {"cannot be read"});
  const Trace trace(small_data());
  expect_bad_input(
      [&] { write_trace(folder.file("no/such/folder.npz"), trace, TracePacking::kStored); },
      {"no/such/folder.npz", "cannot be written", "No such file or directory"});
  expect_bad_input([&] { read_trace(folder.file(std::string(5000, 'x'))); },
                   {"cannot be read", "File name too long"});
  write_bytes(folder.file("text.npz"), bytes_of("this is no zip file at all, only text"));
  expect_bad_input([&] { read_trace(folder.file("text.npz")); }, {"text.npz", "no zip file"});
}

// Every prefix is refused, and a flipped bit gives an error or a trace that passes all checks:
// never a crash.
TEST(TraceFile, EveryPrefixIsRefused) {
  for (const TracePacking packing : packings()) {
    const auto file = encode_trace(Trace(small_data()), packing);
    for (size_t size = 0; size < file.size(); ++size) {
      ASSERT_THROW(parse_trace(std::span(file).first(size), "test"), Error) << size;
    }
  }
}

RC_GTEST_PROP(TraceFile, DamageIsAnErrorOrNothing, (uint64_t seed)) {
  Rng rng(seed);
  for (const TracePacking packing : packings()) {
    auto file = encode_trace(Trace(small_data()), packing);
    const int flips = 1 + static_cast<int>(rng.below(3));
    for (int i = 0; i < flips; ++i) {
      file[rng.below(static_cast<uint32_t>(file.size()))] ^=
          static_cast<std::byte>(1u << rng.below(8));
    }
    try {
      const Trace trace = parse_trace(file, "test");
      RC_ASSERT(trace.loads(0, 0, 2).num_experts() == 3);
    } catch (const Error& error) {
      RC_ASSERT(error.code() == ErrorCode::kBadInput);
    }
  }
}

// The same with the checksums made right again, so that the damage reaches the array parsers.
RC_GTEST_PROP(TraceFile, DamagedArraysAreAnErrorOrNothing, (uint64_t seed)) {
  const auto file = encode_trace(Trace(small_data()), TracePacking::kStored);
  Rng rng(seed);
  std::vector<ZipInput> inputs;
  for (const ZipEntry& entry : parse_zip(file, "test")) {
    const auto bytes = stored_bytes(file, entry, "test");
    inputs.push_back({entry.name, {bytes.begin(), bytes.end()}});
  }
  auto& bytes = inputs[rng.below(static_cast<uint32_t>(inputs.size()))].bytes;
  bytes[rng.below(static_cast<uint32_t>(bytes.size()))] = static_cast<std::byte>(rng.next());
  if (rng.below(4) == 0) bytes.resize(rng.below(static_cast<uint32_t>(bytes.size())));
  try {
    parse_trace(encode_stored_zip(inputs), "test").routing(0, 0, 2);
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ErrorCode::kBadInput);
  }
}

}  // namespace
}  // namespace megaflux
