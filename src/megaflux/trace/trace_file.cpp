#include "megaflux/trace/trace_file.h"

#include <array>
#include <filesystem>

#include "megaflux/base/check.h"
#include "megaflux/trace/deflate.h"
#include "megaflux/trace/npy.h"
#include "megaflux/trace/trace_meta.h"
#include "megaflux/trace/whole_file.h"
#include "megaflux/trace/zip_container.h"

namespace megaflux {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> read_file(const fs::path& path) {
  return read_whole_file(path.string(), kMaxZipBytes);
}

// NAME.npz -> NAME.003.npz
fs::path chunk_path(const fs::path& path, int number) {
  std::string digits = std::to_string(number);
  digits.insert(0, digits.size() < 3 ? 3 - digits.size() : 0, '0');
  fs::path chunk = path;
  return chunk.replace_filename(path.stem().string() + "." + digits + path.extension().string());
}

// Like fs::exists, but a path that cannot even be looked at (too long, no permission) is a file
// that is not there: reading it then says why.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

template <typename T>
void append(std::vector<T>& all, const std::vector<T>& next) {
  all.insert(all.end(), next.begin(), next.end());
}

template <typename T>
void add_array(std::vector<ZipInput>& inputs, std::string_view name, NpyType type,
               std::initializer_list<int64_t> shape, const std::vector<T>& values) {
  inputs.push_back(
      {std::string(name) + ".npy",
       encode_npy(type, std::span(shape.begin(), shape.size()), std::as_bytes(std::span(values)))});
}

}  // namespace

void append_chunk(TraceData& all, const TraceData& next, std::string_view file_name) {
  MF_CHECK(next.meta.first_step == all.meta.first_step + all.num_steps, file_name,
           ": meta first_step: ", next.meta.first_step, ", ", all.meta.first_step + all.num_steps,
           " expected after the chunks before it");
  TraceMeta meta = next.meta;
  meta.first_step = all.meta.first_step;
  MF_CHECK(meta == all.meta, file_name, ": meta differs from that of the chunks before it");
  const auto same_arrays = [](const TraceData& a, const TraceData& b) {
    return a.load_ranks == b.load_ranks && a.has_ids() == b.has_ids() &&
           (a.topk_ids.empty() || b.topk_ids.empty() ||
            a.topk_weights.empty() == b.topk_weights.empty()) &&
           a.realised_rows.empty() == b.realised_rows.empty() &&
           a.phase_us.empty() == b.phase_us.empty() && a.flags.empty() == b.flags.empty();
  };
  MF_CHECK(same_arrays(all, next), file_name, ": other arrays than in the chunks before it");
  append(all.loads, next.loads);
  append(all.topk_ids, next.topk_ids);
  append(all.topk_weights, next.topk_weights);
  append(all.realised_rows, next.realised_rows);
  append(all.phase_us, next.phase_us);
  append(all.flags, next.flags);
  for (size_t i = 0; i < next.instances.size(); ++i) {
    const bool is_step = i % 6 == 0;
    all.instances.push_back(next.instances[i] +
                            (is_step ? static_cast<int32_t>(all.num_steps) : 0));
  }
  if (all.has_ids()) {
    const int64_t base = all.step_offsets.back();
    for (size_t i = 1; i < next.step_offsets.size(); ++i) {
      all.step_offsets.push_back(base + next.step_offsets[i]);
    }
    for (const int64_t offset : next.rank_offsets) all.rank_offsets.push_back(base + offset);
  }
  all.num_steps += next.num_steps;
}

Trace read_trace(const std::string& path) {
  if (is_there(path) || !is_there(chunk_path(path, 0))) {
    return parse_trace(read_file(path), path);
  }
  const fs::path first = chunk_path(path, 0);
  TraceData all = parse_trace(read_file(first), first.string()).data();
  for (int number = 1; is_there(chunk_path(path, number)); ++number) {
    const std::string chunk = chunk_path(path, number).string();
    append_chunk(all, parse_trace(read_file(chunk), chunk).data(), chunk);
  }
  return Trace(std::move(all), path);
}

std::vector<std::byte> encode_trace(const Trace& trace, TracePacking packing) {
  const TraceData& data = trace.data();
  const int64_t steps = data.num_steps;
  const int64_t layers = data.num_layers();
  const int64_t ranks = data.meta.num_ranks;
  const int64_t experts = data.meta.num_experts;
  const int64_t topk = data.meta.topk;
  std::vector<ZipInput> inputs;
  const std::string meta = encode_trace_meta(data.meta);
  add_array(inputs, "meta", NpyType::kUint8, {static_cast<int64_t>(meta.size())},
            std::vector<char>(meta.begin(), meta.end()));
  if (!data.loads.empty()) {
    add_array(inputs, "loads", NpyType::kInt32, {steps, layers, data.load_ranks, experts},
              data.loads);
  }
  if (data.has_ids()) {
    const int64_t tokens = data.step_offsets.back();
    add_array(inputs, "topk_ids", NpyType::kInt16, {tokens, layers, topk}, data.topk_ids);
    add_array(inputs, "step_offsets", NpyType::kInt64, {steps + 1}, data.step_offsets);
    add_array(inputs, "rank_offsets", NpyType::kInt64, {steps, ranks + 1}, data.rank_offsets);
    if (trace.has_weights()) {
      add_array(inputs, "topk_weights", NpyType::kFloat32, {tokens, layers, topk},
                data.topk_weights);
    }
  }
  if (!data.realised_rows.empty()) {
    add_array(inputs, "realised_rows", NpyType::kInt32, {steps, layers, ranks}, data.realised_rows);
  }
  if (!data.instances.empty()) {
    add_array(inputs, "instances", NpyType::kInt32,
              {static_cast<int64_t>(data.instances.size() / 6), 6}, data.instances);
  }
  if (!data.phase_us.empty()) {
    add_array(inputs, "phase_us", NpyType::kFloat32, {steps, layers, ranks, 8}, data.phase_us);
  }
  if (!data.flags.empty()) {
    add_array(inputs, "flags", NpyType::kUint8, {steps, layers}, data.flags);
  }
  return packing == TracePacking::kStored ? encode_stored_zip(inputs) : encode_deflated_zip(inputs);
}

void write_trace(const std::string& path, const Trace& trace, TracePacking packing) {
  write_whole_file(path, encode_trace(trace, packing));
}

}  // namespace megaflux
