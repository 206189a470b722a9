// Small traces, files in a folder of their own, and hand-made .npz bytes.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "megaflux/base/rng.h"
#include "megaflux/trace/npy.h"
#include "megaflux/trace/trace.h"
#include "megaflux/trace/zip_container.h"
#include "moe/expect_error.h"

namespace megaflux {

// A new, empty folder for the files of one test, removed at its end.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = ::testing::TempDir() + "megaflux_trace_XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

inline void write_bytes(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream stream(path, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
}

inline std::vector<std::byte> file_bytes(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  return bytes_of(text);
}

// An entry of a hand-made .npz.
template <typename T>
ZipInput npy_entry(const std::string& name, NpyType type, std::vector<int64_t> shape,
                   const std::vector<T>& values) {
  return {name + ".npy", encode_npy(type, shape, std::as_bytes(std::span(values)))};
}

inline ZipInput meta_entry(std::string_view json) {
  return npy_entry("meta", NpyType::kUint8, {static_cast<int64_t>(json.size())},
                   std::vector<char>(json.begin(), json.end()));
}

inline constexpr std::string_view kSmallMeta =
    R"({"schema":"megaflux.trace/1","num_experts":3,"topk":2,"num_ranks":2,"layers":[3,7]})";

// Two steps of 4 and 3 tokens, two layers, three experts, K = 2, recorded on two ranks; all arrays
// there are.
inline TraceData small_data() {
  TraceData data;
  data.meta = {.num_experts = 3,
               .topk = 2,
               .num_ranks = 2,
               .layers = {3, 7},
               .model = "small",
               .origin = "a test",
               .licence = "Apache-2.0",
               .time_ordered = true};
  data.num_steps = 2;
  data.topk_ids = {0, 1, 2, 0, 0, 2, 2, 1, 1, 2,  -1, 0, 2, 1,
                   0, 1, 0, 1, 0, 1, 2, 2, 1, -1, -1, 0, 1, 2};
  data.step_offsets = {0, 4, 7};
  data.rank_offsets = {0, 1, 4, 4, 7, 7};
  Rng rng(4);
  for (size_t i = 0; i < data.topk_ids.size(); ++i) {
    data.topk_weights.push_back(static_cast<float>(rng.uniform()));
  }
  data.load_ranks = 2;
  data.loads = {1, 1, 0, 1, 2, 3, 1, 0, 1, 2, 2, 1, 2, 1, 2, 0, 0, 0, 1, 3, 1, 0, 0, 0};
  data.realised_rows = {3, 5, 4, 3, 2, 3, 4, 1};
  data.instances = {0, 1, 2, 1, -1, 5, 1, 0, 0, 0, 3, 2};
  for (int i = 0; i < 2 * 2 * 2 * 8; ++i) data.phase_us.push_back(0.5f * static_cast<float>(i));
  data.flags = {1, 0, 0, 2};
  return data;
}

inline void expect_equal(const TraceData& a, const TraceData& b) {
  EXPECT_TRUE(a.meta == b.meta);
  EXPECT_EQ(a.num_steps, b.num_steps);
  EXPECT_EQ(a.load_ranks, b.load_ranks);
  EXPECT_EQ(a.loads, b.loads);
  EXPECT_EQ(a.topk_ids, b.topk_ids);
  EXPECT_EQ(a.step_offsets, b.step_offsets);
  EXPECT_EQ(a.rank_offsets, b.rank_offsets);
  EXPECT_EQ(a.topk_weights, b.topk_weights);
  EXPECT_EQ(a.realised_rows, b.realised_rows);
  EXPECT_EQ(a.instances, b.instances);
  EXPECT_EQ(a.phase_us, b.phase_us);
  EXPECT_EQ(a.flags, b.flags);
}

}  // namespace megaflux
