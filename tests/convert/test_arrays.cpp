// Arrays without a name: widths, axes, and what they hold.
#include <gtest/gtest.h>

#include <limits>

#include "convert/import.h"
#include "convert/npy_recording.h"
#include "megaflux/trace/trace_file.h"
#include "trace/trace_fixture.h"

namespace megaflux::convert {
namespace {

template <typename T>
std::vector<std::byte> npy(NpyType type, std::vector<int64_t> shape, std::vector<T> values) {
  return encode_npy(type, shape, std::as_bytes(std::span(values)));
}

Trace import_array(std::span<const std::byte> bytes, ImportSettings settings = {}) {
  return import_bytes(bytes, settings, "a.npy").trace;
}

// Two steps, two layers whose rows add up to the same, three experts.
const std::vector<int32_t> kCounts = {4, 0, 2, 3, 3, 0, 1, 1, 1, 0, 3, 0};

TEST(ImportNpy, EveryWidthOfCounts) {
  const auto check = [](NpyType type, auto zero) {
    using T = decltype(zero);
    const std::vector<T> values(kCounts.begin(), kCounts.end());
    const Trace trace = import_array(npy(type, {2, 2, 3}, values));
    EXPECT_EQ(trace.data().loads, kCounts) << npy_descr(type);
    EXPECT_EQ(trace.num_steps(), 2);
    EXPECT_EQ(trace.meta().layers, (std::vector<int32_t>{0, 1}));
  };
  check(NpyType::kUint8, uint8_t{});
  check(NpyType::kUint16, uint16_t{});
  check(NpyType::kUint32, uint32_t{});
  check(NpyType::kUint64, uint64_t{});
  check(NpyType::kInt8, int8_t{});
  check(NpyType::kInt16, int16_t{});
  check(NpyType::kInt32, int32_t{});
  check(NpyType::kInt64, int64_t{});
}

TEST(ImportNpy, NumbersBeyond32BitsAreNamed) {
  const auto refused = [](std::vector<std::byte> bytes, std::vector<std::string> words) {
    expect_bad_input([&] { import_array(bytes, {.kind = Kind::kCounts}); }, words);
  };
  refused(npy<uint64_t>(NpyType::kUint64, {1, 2}, {1, uint64_t{1} << 63}),
          {"a.npy", "element 1", "9223372036854775808", "2147483647"});
  refused(npy<int64_t>(NpyType::kInt64, {1, 2}, {-3000000000, 1}), {"element 0", "-3000000000"});
  refused(npy<uint32_t>(NpyType::kUint32, {1, 1}, {4294967295u}), {"4294967295"});
  refused(npy<int32_t>(NpyType::kInt32, {1, 2}, {5, -1}), {"loads", "-1", "negative"});
  refused(npy<float>(NpyType::kFloat32, {1, 2}, {1, 2}), {"dtype <f4", "whole numbers"});
  refused(npy<int32_t>(NpyType::kInt32, {1, 2}, {2000000000, 2000000000}), {"2147483647 rows"});
  refused(npy<uint8_t>(NpyType::kUint8, {1, 1, 1, 1, 1}, {1}), {"[1, 1, 1, 1, 1]", "expert"});
  refused(npy<uint8_t>(NpyType::kUint8, {0, 1, 1}, {}), {"no step"});
  refused(npy<uint8_t>(NpyType::kUint8, {1, 4097}, std::vector<uint8_t>(4097)), {"4097", "4096"});
}

TEST(ImportNpy, SourcesAreKept) {
  const Trace trace =
      import_array(npy(NpyType::kInt32, {1, 2, 2, 3}, kCounts), {.kind = Kind::kCountsBySource});
  EXPECT_EQ(trace.meta().num_ranks, 2);
  const LoadTable loads = trace.loads(0, 1, 2);
  EXPECT_TRUE(loads.has_sources());
  EXPECT_EQ(loads.rows(1, 1), 3);
}

TEST(ImportNpy, IdsByTokenAndBySequence) {
  // Two sequences of two steps, one layer, two slots.
  const std::vector<uint8_t> ids = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto bytes = npy(NpyType::kUint8, {2, 2, 1, 2}, ids);
  const Trace decode = import_array(bytes, {.kind = Kind::kTopk, .num_experts = 16});
  EXPECT_EQ(decode.num_steps(), 2);
  EXPECT_EQ(decode.meta().num_experts, 16);
  EXPECT_TRUE(decode.meta().time_ordered);
  EXPECT_EQ(decode.data().topk_ids, (std::vector<int16_t>{0, 1, 4, 5, 2, 3, 6, 7}));
  const Trace prefill =
      import_array(npy(NpyType::kUint8, {4, 1, 2}, ids), {.kind = Kind::kTopk, .step_tokens = 3});
  EXPECT_EQ(prefill.data().step_offsets, (std::vector<int64_t>{0, 3, 4}));
  EXPECT_EQ(prefill.meta().num_experts, 8);
  EXPECT_EQ(import_array(npy(NpyType::kUint8, {4, 2}, ids), {.kind = Kind::kTopk}).num_tokens(0),
            4);
}

TEST(ImportNpy, SlotsThatNoTokenUsesAreLeftOut) {
  const auto bytes = npy<int32_t>(NpyType::kInt32, {2, 1, 4}, {3, 1, -1, -1, 0, -1, -1, -1});
  EXPECT_EQ(import_array(bytes).meta().topk, 2);
  EXPECT_EQ(import_array(bytes, {.topk = 3}).meta().topk, 3);
  expect_bad_input([&] { import_array(bytes, {.topk = 1}); }, {"2 of 4 slots", "--topk 1"});
  expect_bad_input([&] { import_array(bytes, {.topk = 5}); }, {"--topk 5"});
}

TEST(ImportNpy, WhatTheNumbersTell) {
  const auto kind = [](std::vector<int64_t> shape, std::vector<int32_t> values) {
    return told_kind({.shape = std::move(shape), .values = std::move(values)}, "a.npy");
  };
  EXPECT_EQ(kind({2, 2, 3}, kCounts), Kind::kCounts);
  EXPECT_EQ(kind({1, 2, 2, 3}, {4, 0, 2, 3, 3, 0, 6, 0, 0, 3, 3, 0}), Kind::kCountsBySource);
  EXPECT_EQ(kind({2, 2, 2}, {0, 1, 2, 3, 4, 5, 7, 6}), Kind::kTopk);
  EXPECT_EQ(kind({2, 1, 2}, {5, -1, -1, -1}), Kind::kTopk);
  EXPECT_EQ(kind({4}, {3, 1, 1, 0}), Kind::kCounts);
  // One layer, and no expert twice: both could be.
  expect_bad_input([&] { kind({2, 1, 2}, {0, 1, 2, 3}); }, {"a.npy", "counts or ids", "--kind"});
  // Sums differ between layers, and an expert stands twice.
  expect_bad_input([&] { kind({1, 2, 2}, {1, 1, 2, 3}); }, {"neither ids", "--kind"});
  expect_bad_input([&] { kind({0, 2}, {}); }, {"[0, 2]", "nothing"});
}

TEST(ImportNpy, IdsOutOfRange) {
  const auto refused = [](int32_t id, ImportSettings settings, std::vector<std::string> words) {
    settings.kind = Kind::kTopk;
    const auto bytes = npy<int32_t>(NpyType::kInt32, {1, 1, 2}, {0, id});
    expect_bad_input([&] { import_array(bytes, settings); }, words);
  };
  refused(4096, {}, {"token 0", "4096", "[-1, 4095]"});
  refused(-2, {}, {"-2", "[-1, 4095]"});
  refused(9, {.num_experts = 9}, {"expert 9", "--num-experts 9"});
}

TEST(ImportNpy, SettingsMustFitTheFile) {
  const auto bytes = npy(NpyType::kInt32, {2, 2, 3}, kCounts);
  const Trace trace = import_array(bytes, {.num_experts = 3,
                                           .topk = 2,
                                           .layers = {7, 3},
                                           .model = "m",
                                           .origin = "o",
                                           .licence = "l",
                                           .is_time_ordered = true});
  EXPECT_EQ(trace.layer_index(3), 1);
  EXPECT_EQ(trace.meta().topk, 2);
  EXPECT_EQ(trace.meta().model + trace.meta().origin + trace.meta().licence, "mol");
  EXPECT_TRUE(trace.meta().time_ordered);
  expect_bad_input([&] { import_array(bytes, {.num_experts = 4}); },
                   {"3 experts", "--num-experts 4"});
  expect_bad_input([&] { import_array(bytes, {.layers = {1}}); }, {"2 layers", "--layers names 1"});
  expect_bad_input([&] { import_array(bytes, {.layers = {1, 1}}); }, {"layer 1 stands twice"});
}

TEST(Import, PyTorchFilesAreRefused) {
  const auto refused = [](std::string_view text) {
    expect_bad_input([&] { import_bytes(bytes_of(text), {}, "dump.pt"); },
                     {"dump.pt", "PyTorch", "execute code", "JSON or .npy"});
  };
  const ZipInput pickle{"archive/data.pkl", bytes_of("\x80\x02}.")};
  const auto zip = encode_stored_zip(std::vector{pickle});
  refused({reinterpret_cast<const char*>(zip.data()), zip.size()});
  refused("\x80\x02}q\x01.");
}

TEST(Import, FormatsThatDoNotFitTheFile) {
  const auto refused = [](std::string_view text, Format format, std::vector<std::string> words) {
    expect_bad_input([&] { import_bytes(bytes_of(text), {.format = format}, "x"); }, words);
  };
  refused("1,2,3", Format::kNpy, {"x", "too few"});
  refused("1,2,3", Format::kUltraEp, {"x", ".manifest.json"});
  refused("1,2,3", Format::kSglang, {"x", "no JSON from byte"});
  refused("[1,2", Format::kAuto, {"x", "no JSON from byte"});
  refused("", Format::kAuto, {"x", "no numbers"});
  const auto trace = encode_trace(Trace(small_data()), TracePacking::kStored);
  const std::string_view npz(reinterpret_cast<const char*>(trace.data()), trace.size());
  refused(npz, Format::kNpy, {"x", ".npz file", "--format npy"});
  expect_bad_input([] { parse_format("onnx"); }, {"'onnx'", "auto|ultraep|sglang|vllm|npy|csv"});
  expect_bad_input([] { parse_kind("joy"); }, {"'joy'", "counts-by-source"});
}

}  // namespace
}  // namespace megaflux::convert
