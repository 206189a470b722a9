// From the bytes of a trace file to TraceData.
#include <algorithm>
#include <cstring>
#include <optional>

#include "megaflux/base/check.h"
#include "megaflux/trace/npy.h"
#include "megaflux/trace/npz_file.h"
#include "megaflux/trace/trace_file.h"
#include "megaflux/trace/trace_meta.h"

namespace megaflux {
namespace {

template <typename T>
constexpr NpyType npy_type_of() {
  if constexpr (std::is_same_v<T, uint8_t>) return NpyType::kUint8;
  if constexpr (std::is_same_v<T, int16_t>) return NpyType::kInt16;
  if constexpr (std::is_same_v<T, int32_t>) return NpyType::kInt32;
  if constexpr (std::is_same_v<T, int64_t>) return NpyType::kInt64;
  if constexpr (std::is_same_v<T, float>) return NpyType::kFloat32;
}

template <typename T>
struct Array {
  std::vector<int64_t> shape;
  std::vector<T> values;
};

class TraceParser {
 public:
  TraceParser(std::span<const std::byte> file, std::string_view file_name)
      : file_(file, file_name), file_name_(file_name) {}

  TraceData parse() {
    data_.meta = parse_meta();
    layers_ = static_cast<int64_t>(data_.meta.layers.size());
    parse_loads();
    parse_ids();
    MF_CHECK(data_.num_steps >= 1, file_name_,
             ": no step: neither array loads nor topk_ids with one");
    parse_recorder_arrays();
    return std::move(data_);
  }

 private:
  static constexpr int64_t kAny = -1;

  // The array, its shape compared with `expected` (kAny = free); nullopt if the file has none of
  // that name.
  template <typename T>
  std::optional<Array<T>> array(const std::string& name, std::vector<int64_t> expected) {
    if (!file_.has(name)) return std::nullopt;
    const std::string where = file_.where(name);
    const NpzArray stored = file_.array(name);
    const NpyView& view = stored.view;
    constexpr NpyType kType = npy_type_of<T>();
    MF_CHECK(view.type == kType, where, ": dtype ", npy_descr(view.type), ", ", npy_descr(kType),
             " expected");
    bool fits = view.shape.size() == expected.size();
    for (size_t i = 0; fits && i < expected.size(); ++i) {
      fits = expected[i] == kAny || expected[i] == view.shape[i];
    }
    MF_CHECK(fits, where, ": shape ", shape_text(view.shape), ", ", shape_text(expected),
             " expected");
    Array<T> result{view.shape, std::vector<T>(view.num_elements())};
    if (!view.payload.empty()) {
      std::memcpy(result.values.data(), view.payload.data(), view.payload.size());
    }
    return result;
  }

  TraceMeta parse_meta() {
    const auto meta = array<uint8_t>("meta", {kAny});
    MF_CHECK(meta, file_name_, ": array meta is missing");
    MF_CHECK(meta->values.size() <= kMaxMetaBytes, file_name_,
             ": array meta: ", meta->values.size(), " bytes, at most ", kMaxMetaBytes);
    return parse_trace_meta(
        {reinterpret_cast<const char*>(meta->values.data()), meta->values.size()}, file_name_);
  }

  void set_steps(int64_t steps, std::string_view array_name) {
    MF_CHECK(data_.num_steps == 0 || data_.num_steps == steps, file_name_, ": array ", array_name,
             ": ", steps, " steps, array loads has ", data_.num_steps);
    data_.num_steps = steps;
  }

  void parse_loads() {
    auto loads = array<int32_t>("loads", {kAny, layers_, kAny, data_.meta.num_experts});
    if (!loads) return;
    const int64_t ranks = loads->shape[2];
    MF_CHECK(ranks == 1 || ranks == data_.meta.num_ranks, file_name_, ": array loads: ", ranks,
             " ranks, 1 or num_ranks = ", data_.meta.num_ranks, " expected");
    MF_CHECK(loads->shape[0] >= 1, file_name_, ": array loads: 0 steps");
    data_.load_ranks = static_cast<int32_t>(ranks);
    data_.loads = std::move(loads->values);
    set_steps(loads->shape[0], "loads");
  }

  void parse_ids() {
    const int64_t topk = data_.meta.topk;
    auto ids = array<int16_t>("topk_ids", {kAny, layers_, topk});
    auto steps = array<int64_t>("step_offsets", {kAny});
    if (!ids) {
      MF_CHECK(!steps, file_name_, ": array step_offsets without topk_ids");
      return;
    }
    MF_CHECK(topk >= 1, file_name_, ": meta topk: 0 (not stated) is not possible with topk_ids");
    const int64_t tokens = ids->shape[0];
    data_.topk_ids = std::move(ids->values);
    // Without offsets all tokens are one step.
    data_.step_offsets = steps ? std::move(steps->values) : std::vector<int64_t>{0, tokens};
    MF_CHECK(data_.step_offsets.size() >= 2, file_name_,
             ": array step_offsets: ", data_.step_offsets.size(), " elements, at least 2 expected");
    for (const int64_t offset : data_.step_offsets) {
      MF_CHECK(offset >= 0 && offset <= tokens, file_name_, ": array step_offsets: ", offset,
               " is outside [0, ", tokens, " tokens]");
    }
    set_steps(static_cast<int64_t>(data_.step_offsets.size()) - 1, "step_offsets");
    parse_ranks();
    if (auto weights = array<float>("topk_weights", {tokens, layers_, topk})) {
      data_.topk_weights = std::move(weights->values);
    }
  }

  void parse_ranks() {
    const int32_t ranks = data_.meta.num_ranks;
    if (auto offsets = array<int64_t>("rank_offsets", {data_.num_steps, ranks + 1})) {
      data_.rank_offsets = std::move(offsets->values);
      return;
    }
    // Without offsets each step is cut evenly. Bounded by the two arrays' extents: S from the file,
    // P <= 1024.
    const int64_t cells = data_.num_steps * (ranks + 1);
    constexpr int64_t kMaxCells = int64_t{1} << 24;
    MF_CHECK(cells <= kMaxCells, file_name_, ": ", data_.num_steps, " steps x ", ranks,
             " ranks without array rank_offsets, at most ", kMaxCells, " cells");
    data_.rank_offsets.reserve(cells);
    for (int64_t s = 0; s < data_.num_steps; ++s) {
      // Offsets that fall are reported by the check of the whole trace.
      const auto cuts = even_cuts(
          data_.step_offsets[s], std::max(data_.step_offsets[s], data_.step_offsets[s + 1]), ranks);
      data_.rank_offsets.insert(data_.rank_offsets.end(), cuts.begin(), cuts.end());
    }
  }

  void parse_recorder_arrays() {
    const int64_t steps = data_.num_steps;
    const int64_t ranks = data_.meta.num_ranks;
    if (auto rows = array<int32_t>("realised_rows", {steps, layers_, ranks})) {
      data_.realised_rows = std::move(rows->values);
    }
    if (auto instances = array<int32_t>("instances", {kAny, 6})) {
      data_.instances = std::move(instances->values);
    }
    if (auto times = array<float>("phase_us", {steps, layers_, ranks, 8})) {
      data_.phase_us = std::move(times->values);
    }
    if (auto flags = array<uint8_t>("flags", {steps, layers_})) {
      data_.flags = std::move(flags->values);
    }
  }

  NpzFile file_;
  std::string_view file_name_;
  int64_t layers_ = 0;
  TraceData data_;
};

}  // namespace

Trace parse_trace(std::span<const std::byte> file, std::string_view file_name) {
  return Trace(TraceParser(file, file_name).parse(), file_name);
}

}  // namespace megaflux
