#include "cli/load_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "cli/options.h"
#include "megaflux/base/check.h"
#include "megaflux/trace/trace_file.h"

namespace megaflux::cli {
namespace {

constexpr int64_t kMaxCount = INT32_MAX;
constexpr int64_t kMaxExperts = 4096;

std::vector<int64_t> parse_counts(const std::string& line, const std::string& where) {
  std::vector<int64_t> counts;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(',', begin), line.size());
    const std::string cell = where + ", column " + std::to_string(counts.size() + 1);
    counts.push_back(parse_integer(cell, line.substr(begin, end - begin), {0, kMaxCount}));
    MF_CHECK(counts.size() <= kMaxExperts, where, ": more than ", kMaxExperts,
             " experts, the limit is ", kMaxExperts);
    begin = end + 1;
  }
  return counts;
}

// All lines that hold counts; at most P, all of the same length.
std::vector<std::vector<int64_t>> read_lines(const std::string& path, int32_t num_ranks) {
  std::error_code ignored;
  std::ifstream file(path);
  MF_CHECK(file.is_open() && !std::filesystem::is_directory(path, ignored), "LOADS: ", path,
           " cannot be read");
  std::vector<std::vector<int64_t>> lines;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    const std::string where = "LOADS: " + path + ", line " + std::to_string(number);
    lines.push_back(parse_counts(line, where));
    MF_CHECK(lines.back().size() == lines.front().size(), where, ": ", lines.back().size(),
             " counts, ", lines.front().size(), " expected as in the first line");
    MF_CHECK(lines.size() <= static_cast<size_t>(num_ranks), where, ": line ", lines.size(),
             " with counts, --ranks ", num_ranks, " allows 1 or ", num_ranks);
  }
  return lines;
}

LoadInput read_csv(const std::string& path, int32_t num_ranks) {
  const auto lines = read_lines(path, num_ranks);
  MF_CHECK(lines.size() == 1 || lines.size() == static_cast<size_t>(num_ranks), "LOADS: ", path,
           ": ", lines.size(), " lines with counts, --ranks ", num_ranks, " needs 1 or ",
           num_ranks);
  LoadInput input;
  input.origin = path;
  if (lines.size() == 1 && num_ranks > 1) {
    input.loads = LoadTable::from_totals(num_ranks, lines.front());
    return input;
  }
  std::vector<int32_t> rows;
  for (const auto& line : lines) rows.insert(rows.end(), line.begin(), line.end());
  input.loads = LoadTable(num_ranks, static_cast<int32_t>(lines.front().size()), rows);
  return input;
}

LoadInput read_trace_step(const std::string& path, const TraceStep& where, int32_t num_ranks) {
  const Trace trace = open_trace("LOADS", path);
  const int32_t layer_idx = pick_layer(trace, std::max(where.layer, 0));
  const int32_t step = pick_step(trace, std::max(where.step, 0));
  return {.loads = trace.loads(step, layer_idx, num_ranks),
          .topk = trace.meta().topk,
          .origin = trace_place(trace, path, layer_idx, step)};
}

}  // namespace

Trace open_trace(const std::string& option, const std::string& path) {
  try {
    return read_trace(path);
  } catch (const Error& error) {
    throw Error(error.code(), option + ": " + error.what());
  }
}

int32_t pick_layer(const Trace& trace, int32_t layer_idx) {
  MF_CHECK(layer_idx < trace.num_layers(), "--layer: ", layer_idx, " is outside [0, ",
           trace.num_layers() - 1, "], the layer indices of the trace");
  return layer_idx;
}

int32_t pick_step(const Trace& trace, int32_t step) {
  MF_CHECK(step < trace.num_steps(), "--step: ", step, " is outside [0, ", trace.num_steps() - 1,
           "], the steps of the trace");
  return step;
}

std::string trace_place(const Trace& trace, const std::string& path, int32_t layer_idx,
                        int32_t step) {
  return fmt::format("{}, layer index {} (model layer {}), step {}",
                     std::filesystem::path(path).filename().string(), layer_idx,
                     trace.meta().layers[layer_idx], step);
}

bool is_trace_path(const std::string& path) {
  return path.ends_with(".npz");
}

LoadInput read_loads(const std::string& path, const TraceStep& where, int32_t num_ranks) {
  if (is_trace_path(path)) return read_trace_step(path, where, num_ranks);
  MF_CHECK(where.layer < 0, "--layer: ", where.layer, " needs a trace (.npz), ", path, " is none");
  MF_CHECK(where.step < 0, "--step: ", where.step, " needs a trace (.npz), ", path, " is none");
  return read_csv(path, num_ranks);
}

}  // namespace megaflux::cli
