#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fstream>

#include "convert/import.h"
#include "convert/ultraep_export.h"
#include "convert/ultraep_recording.h"
#include "megaflux/trace/npz_file.h"
#include "trace/trace_fixture.h"

namespace megaflux::convert {
namespace {

using Json = nlohmann::ordered_json;

Json metadata() {
  return {{"schema", kUltraEpSchema}, {kExperts, 4},    {kEpSize, 2}, {kRankOwned, 2},
          {kRankPlaces, 3},           {"trace_id", "µ"}};
}

// A chunk of N records; tests change what is in it.
struct Chunk {
  Json meta = metadata();
  std::vector<int32_t> layers = {3, 5};
  std::vector<int64_t> microbatches = {0, 0};
  std::vector<int32_t> pre = {9, 2, 3, 2, 4, 4, 4, 4};
  std::vector<int32_t> post = {5, 2, 0, 3, 2, 4, 4, 4, 0, 4, 4, 0};

  std::vector<std::byte> bytes() const {
    const auto count = static_cast<int64_t>(layers.size());
    const std::string json = meta.dump(-1, ' ', true);
    const std::vector<char32_t> letters(json.begin(), json.end());
    return encode_stored_zip(std::vector{
        npy_entry("metadata", NpyType::kText, {static_cast<int64_t>(letters.size())}, letters),
        npy_entry("layers", NpyType::kInt32, {count}, layers),
        npy_entry("virtual_layers", NpyType::kInt32, {count}, layers),
        npy_entry("microbatches", NpyType::kInt64, {count}, microbatches),
        npy_entry("pre_logical_loads", NpyType::kInt32,
                  {count, static_cast<int64_t>(pre.size()) / count}, pre),
        npy_entry("post_physical_loads", NpyType::kInt32,
                  {count, static_cast<int64_t>(post.size()) / count}, post)});
  }
};

TEST(UltraEp, AChunkBecomesLoadsAndRowsOfRanks) {
  const Import import = import_bytes(Chunk().bytes(), {.topk = 2}, "t.chunk000000.npz");
  const TraceData& data = import.trace.data();
  EXPECT_EQ(data.loads, (std::vector<int32_t>{9, 2, 3, 2, 4, 4, 4, 4}));
  EXPECT_EQ(data.realised_rows, (std::vector<int32_t>{7, 9, 8, 8}));
  EXPECT_EQ(data.load_ranks, 1);
  EXPECT_EQ(data.meta.num_ranks, 2);
  EXPECT_EQ(data.meta.layers, (std::vector<int32_t>{3, 5}));
  EXPECT_TRUE(data.meta.time_ordered);
  EXPECT_FALSE(import.trace.loads(0, 0, 2).has_sources());
}

TEST(UltraEp, MicrobatchesThatLackALayerAreLeftOut) {
  Chunk chunk;
  chunk.layers = {5, 3, 3};
  chunk.microbatches = {8, 8, 9};
  chunk.pre.insert(chunk.pre.end(), {1, 1, 1, 1});
  chunk.post.insert(chunk.post.end(), {1, 1, 0, 1, 1, 0});
  const Import import = import_bytes(chunk.bytes(), {}, "t.npz");
  EXPECT_EQ(import.trace.num_steps(), 1);
  // Records come in any order of layers.
  EXPECT_EQ(import.trace.data().loads, (std::vector<int32_t>{4, 4, 4, 4, 9, 2, 3, 2}));
  EXPECT_EQ(import.notes,
            std::vector<std::string>{"1 of 2 microbatches lack a layer and are left out"});
}

TEST(UltraEp, BadChunksNameWhatIsWrong) {
  const auto refused = [](const Chunk& chunk, std::vector<std::string> words) {
    words.push_back("t.npz");
    expect_bad_input([&] { import_bytes(chunk.bytes(), {}, "t.npz"); }, words);
  };
  const auto changed_meta = [](const char* key, Json value) {
    Chunk chunk;
    chunk.meta[key] = std::move(value);
    return chunk;
  };
  refused(changed_meta("schema", "ultra_ep_trace_v2"),
          {"'ultra_ep_trace_v2'", "ultra_ep_trace_v1"});
  refused(changed_meta(kExperts, 5000), {kExperts, "5000", "4096"});
  refused(changed_meta(kExperts, "four"), {kExperts, "no whole number"});
  refused(changed_meta(kExperts, 18446744073709551615u), {kExperts, "outside"});
  refused(changed_meta(kExperts, 6), {kExperts, "6", "2 on each of 2 ranks"});
  refused(changed_meta(kEpSize, 0), {kEpSize, "0", "[1, 1024]"});
  refused(changed_meta(kRankPlaces, 1), {kRankPlaces, "1", "[2,"});
  Chunk chunk;
  chunk.pre[1] = -2;
  refused(chunk, {"pre_logical_loads", "-2", "negative"});
  chunk = {};
  chunk.post[1] = -3;
  refused(chunk, {"post_physical_loads", "-3"});
  chunk = {};
  chunk.post[0] = chunk.post[1] = 2000000000;
  refused(chunk, {"post_physical_loads", "4000000000"});
  chunk = {};
  chunk.pre.pop_back();
  chunk.pre.pop_back();
  refused(chunk, {"pre_logical_loads", "[2, 3]", "[2, 4]"});
  chunk = {};
  chunk.microbatches[1] = -1;
  refused(chunk, {"microbatches", "element 1", "-1"});
  chunk = {};
  chunk.layers = {3, 3};
  refused(chunk, {"layer 3", "microbatch 0", "twice"});
  chunk = {};
  chunk.microbatches = {0, 1};
  refused(chunk, {"none of 2 microbatches", "2 layers"});
  chunk = {};
  chunk.layers = {-1, 5};
  refused(chunk, {"layers", "-1"});
}

TEST(UltraEp, ChunksOfDifferentGroupsDoNotMix) {
  UltraEpReader reader;
  reader.add_chunk(Chunk().bytes(), "a");
  Chunk other;
  other.meta[kEpSize] = 4;
  other.meta[kRankOwned] = 1;
  expect_bad_input([&] { reader.add_chunk(other.bytes(), "b"); }, {"b: metadata", "other numbers"});
}

// A trace of `steps` steps and two layers over 8 experts.
Trace loads_trace(int64_t steps, uint64_t seed) {
  TraceData data;
  data.meta = {.num_experts = 8, .layers = {2, 9}, .model = "m<script>µ"};
  data.num_steps = steps;
  data.load_ranks = 1;
  Rng rng(seed);
  for (int64_t i = 0; i < steps * 16; ++i) {
    data.loads.push_back(static_cast<int32_t>(rng.next() % 1000));
  }
  return Trace(std::move(data));
}

void write(const TempFolder& folder, const Trace& trace, int32_t slots) {
  const auto dims = ultraep_dims(trace, 4, slots);
  const UltraEpWriter writer(
      trace, dims, "run", [dims](int64_t, int32_t, const LoadTable& loads, std::span<int32_t> out) {
        fixed_places(dims, loads, out);
      });
  write_ultraep("-o", writer, folder.file("run"), [](int64_t) {});
}

RC_GTEST_PROP(UltraEpExport, ImportGivesTheLoadsBack, ()) {
  const TempFolder folder;
  const auto steps = *rc::gen::inRange<int64_t>(1, 40) + (*rc::gen::inRange(0, 8) == 0 ? 1100 : 0);
  const Trace trace = loads_trace(steps, *rc::gen::arbitrary<uint64_t>());
  write(folder, trace, *rc::gen::inRange(0, 3));
  const auto files = recording_files(folder.file("run.manifest.json"));
  RC_ASSERT(static_cast<int64_t>(files.size()) == (2 * steps + 1023) / 1024);
  RC_ASSERT(recording_files(files.back()) == files);
  const Import import = import_recording(files, {}, [](size_t) {});
  RC_ASSERT(import.trace.data().loads == trace.data().loads);
  RC_ASSERT(import.trace.meta().layers == trace.meta().layers);
  RC_ASSERT(import.notes.empty());
}

TEST(UltraEpExport, WritesTheirNamesAndTypes) {
  const TempFolder folder;
  write(folder, loads_trace(3, 5), 2);
  const auto bytes = file_bytes(folder.file("run.chunk000000.npz"));
  const NpzFile file(bytes, "run");
  EXPECT_EQ(file.names(),
            (std::vector<std::string>{"metadata", "layers", "virtual_layers", "microbatches",
                                      "pre_logical_loads", "post_physical_loads"}));
  EXPECT_EQ(file.array("metadata").view.type, NpyType::kText);
  EXPECT_EQ(file.array("layers").view.type, NpyType::kInt32);
  EXPECT_EQ(file.array("virtual_layers").view.shape, std::vector<int64_t>{6});
  EXPECT_EQ(file.array("microbatches").view.type, NpyType::kInt64);
  EXPECT_EQ(file.array("pre_logical_loads").view.shape, (std::vector<int64_t>{6, 8}));
  EXPECT_EQ(file.array("post_physical_loads").view.shape, (std::vector<int64_t>{6, 16}));
  const auto text = file_bytes(folder.file("run.manifest.json"));
  const auto manifest = Json::parse(reinterpret_cast<const char*>(text.data()),
                                    reinterpret_cast<const char*>(text.data()) + text.size());
  EXPECT_EQ(manifest["chunks"], 1);
  EXPECT_EQ(manifest["trace_id"], "run");
  EXPECT_EQ(manifest[kPlaces], 16);
  EXPECT_EQ(manifest[kRankSlots], 2);
  EXPECT_EQ(manifest["model"], "m<script>µ");
}

// The example of ultraep_export.h, from a plan.
TEST(UltraEpExport, PlansFillSlots) {
  PlanDraft draft;
  const std::vector<int32_t> owners = {0, 0, 1, 1};
  const std::vector<int32_t> blocks = {9, 2, 3, 2};
  const std::vector<DraftReplica> replicas = {{.expert = 0, .rank = 1, .num_blocks = 4}};
  const UltraEpDims dims{.num_experts = 4, .num_ranks = 2, .slots = 1};
  const LoadTable loads = LoadTable::from_totals(2, std::vector<int64_t>{9, 2, 3, 2});
  draft.dims = {.num_experts = 4, .num_ranks = 2, .replica_slots = 1, .block_rows = 1};
  draft.owner_of = owners;
  draft.blocks = blocks;
  draft.replicas = replicas;
  Plan plan;
  plan.assign(draft);
  std::vector<int32_t> places(6);
  plan_places(dims, plan, loads, places);
  EXPECT_EQ(places, (std::vector<int32_t>{5, 2, 0, 3, 2, 4}));
  fixed_places(dims, loads, places);
  EXPECT_EQ(places, (std::vector<int32_t>{9, 2, 0, 3, 2, 0}));
}

TraceData recorded_data() {
  TraceData data;
  data.meta = {.num_experts = 4, .num_ranks = 2, .layers = {0}};
  data.num_steps = 1;
  data.load_ranks = 1;
  data.loads = {9, 2, 3, 2};
  data.instances = {0, 0,  0, 0, -1, 5, 0, 0,  1, 0, -1, 2, 0, 0, 2,
                    1, -1, 3, 0, 0,  3, 1, -1, 2, 0, 0,  0, 1, 0, 4};
  return data;
}

TEST(UltraEpExport, RecordedInstancesFillSlots) {
  const Trace trace(recorded_data());
  EXPECT_EQ(RecordedPlaces::slots_of(trace), 1);
  const RecordedPlaces recorded(trace, ultraep_dims(trace, 2, 1));
  std::vector<int32_t> places(6);
  recorded.fill(0, 0, trace.loads(0, 0, 2), places);
  EXPECT_EQ(places, (std::vector<int32_t>{5, 2, 0, 3, 2, 4}));
}

TEST(UltraEpExport, RecordedInstancesMustAddUp) {
  const auto refused = [](size_t at, int32_t value, std::vector<std::string> words) {
    TraceData data = recorded_data();
    data.instances[at] = value;
    const Trace trace(std::move(data));
    expect_bad_input(
        [&] {
          const RecordedPlaces recorded(trace, ultraep_dims(trace, 2, 1));
          std::vector<int32_t> places(6);
          recorded.fill(0, 0, trace.loads(0, 0, 2), places);
        },
        words);
  };
  refused(5, 6, {"expert 0", "more than its 9 rows"});
  refused(5, 4, {"expert 0", "8 of its 9 rows"});
  refused(3, 1, {"rank 1 owns expert 0", "rank 0"});
}

TEST(UltraEpExport, BadInputLeavesNothing) {
  const Trace trace = loads_trace(1, 1);
  expect_bad_input([&] { ultraep_dims(trace, 3, 0); }, {"--ranks: 3", "8 experts"});
  const TempFolder folder;
  write(folder, loads_trace(1, 1), 0);
  std::ofstream(folder.file("run.chunk000001.npz")) << "an older one";
  expect_bad_input([&] { write(folder, trace, 0); }, {"run.chunk000001.npz", "earlier trace"});
  // The second chunk fails; the first is gone again.
  const auto dims = ultraep_dims(trace, 4, 0);
  const Trace longer = loads_trace(600, 2);
  const UltraEpWriter failing(longer, dims, "bad",
                              [](int64_t step, int32_t, const LoadTable&, std::span<int32_t>) {
                                if (step == 599) throw Error(ErrorCode::kBadInput, "no");
                              });
  EXPECT_THROW(write_ultraep("-o", failing, folder.file("bad"), [](int64_t) {}), Error);
  EXPECT_FALSE(std::filesystem::exists(folder.file("bad.chunk000000.npz")));
}

TEST(UltraEp, ManifestsWithoutTheirChunks) {
  const TempFolder folder;
  const auto refused = [&](std::string_view text, std::vector<std::string> words) {
    write_bytes(folder.file("x.manifest.json"), bytes_of(text));
    expect_bad_input([&] { recording_files(folder.file("x.manifest.json")); }, words);
  };
  refused("[]", {"x.manifest.json", "no JSON object"});
  refused(R"({"schema": "ultra_ep_trace_v1"})", {"chunks"});
  refused(R"({"schema": "ultra_ep_trace_v1", "chunks": 2})", {"names 2 chunks", "0 are there"});
  refused(R"({"schema": "ultra_ep_trace_v1", "chunks": 0})", {"0 are there"});
}

}  // namespace
}  // namespace megaflux::convert
