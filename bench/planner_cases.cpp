#include "planner_cases.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <iomanip>
#include <numeric>
#include <sstream>

#include "megaflux/base/check.h"
#include "megaflux/trace/trace_file.h"
#include "simulate/case_sampler.h"

namespace megaflux::bench {
namespace {

constexpr int64_t kCasesPerFile = 120;
constexpr int64_t kLeastExperts = 16;

struct NpyArray {
  std::vector<int64_t> shape;
  std::vector<int64_t> values;  // C order
};

// The text between `key` and the next `end` in an .npy header.
std::string header_field(const std::string& header, const std::string& key, char end) {
  const size_t at = header.find(key);
  MF_CHECK(at != std::string::npos, "npy header has no ", key);
  const size_t begin = at + key.size();
  return header.substr(begin, header.find(end, begin) - begin);
}

// Version 1, little-endian unsigned or signed integers, C order.
NpyArray read_npy(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  char preamble[10];
  MF_CHECK(file.read(preamble, 10) && std::memcmp(preamble, "\x93NUMPY\x01", 7) == 0, path.string(),
           ": not a version 1 .npy file");
  std::string header(uint8_t(preamble[8]) | uint8_t(preamble[9]) << 8, ' ');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  const std::string type = header_field(header, "'descr': '", '\'');
  MF_CHECK(type.size() == 3 && (type[1] == 'u' || type[1] == 'i'), path.string(), ": type '", type,
           "' is not an integer type");
  MF_CHECK(header_field(header, "'fortran_order': ", ',') == "False", path.string(),
           ": Fortran order");
  NpyArray array;
  std::istringstream shape(header_field(header, "'shape': (", ')'));
  for (std::string part; std::getline(shape, part, ',');) {
    if (part.find_first_not_of(' ') != std::string::npos) array.shape.push_back(std::stoll(part));
  }
  const int64_t count = std::accumulate(array.shape.begin(), array.shape.end(), int64_t{1},
                                        std::multiplies<int64_t>());
  const int bytes = type[2] - '0';
  array.values.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = 0;
    MF_CHECK(file.read(reinterpret_cast<char*>(&value), bytes), path.string(), ": ends after ", i,
             " of ", count, " values");
    array.values.push_back(value);
  }
  return array;
}

void add_case(PlannerCase trace_case, std::vector<PlannerCase>& cases) {
  const std::vector<int64_t>& counts = trace_case.counts;
  if (std::any_of(counts.begin(), counts.end(), [](int64_t c) { return c > 0; })) {
    cases.push_back(std::move(trace_case));
  }
}

void add_trace(const std::filesystem::path& path, std::vector<PlannerCase>& cases) {
  const Trace trace = read_trace(path.string());
  if (trace.meta().num_experts < kLeastExperts) return;
  const int64_t num_layers = trace.num_layers();
  for (const int64_t index :
       simulate::draw_places(trace.num_steps() * num_layers, kCasesPerFile, 1)) {
    const LoadTable loads =
        trace.loads(index / num_layers, static_cast<int32_t>(index % num_layers), 1);
    add_case({path.filename().string(), index, {loads.totals().begin(), loads.totals().end()}},
             cases);
  }
}

void add_array(const std::filesystem::path& path, std::vector<PlannerCase>& cases) {
  const NpyArray array = read_npy(path);
  const size_t axes = array.shape.size();
  MF_CHECK(axes == 3 || axes == 4, path.string(), ": ", axes, " axes, 3 or 4 are needed");
  const int64_t num_experts = array.shape.back();
  if (num_experts < kLeastExperts) return;
  const int64_t num_sources = axes == 4 ? array.shape[2] : 1;
  for (const int64_t index :
       simulate::draw_places(array.shape[0] * array.shape[1], kCasesPerFile, 1)) {
    PlannerCase trace_case{path.filename().string(), index, std::vector<int64_t>(num_experts, 0)};
    const int64_t* values = array.values.data() + index * num_sources * num_experts;
    for (int64_t n = 0; n < num_sources * num_experts; ++n) {
      trace_case.counts[n % num_experts] += values[n];
    }
    add_case(std::move(trace_case), cases);
  }
}

}  // namespace

std::vector<PlannerCase> read_planner_cases(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_array = entry.path().extension() == ".npy";
    if ((is_array && name.find("counts") != std::string::npos) ||
        entry.path().extension() == ".npz") {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<PlannerCase> cases;
  for (const std::filesystem::path& path : paths) {
    path.extension() == ".npz" ? add_trace(path, cases) : add_array(path, cases);
  }
  MF_CHECK(!cases.empty(), folder.string(), ": no .npz trace and no *counts*.npy with at least ",
           kLeastExperts, " experts");
  return cases;
}

LoadTable scaled_loads(const PlannerCase& trace_case, int32_t num_ranks, int64_t rows_per_rank) {
  return simulate::scaled_loads(LoadTable::from_totals(num_ranks, trace_case.counts), 0,
                                rows_per_rank);
}

void append_result(const std::filesystem::path& file, const Result& result,
                   const std::string& commit, const std::string& command) {
  std::ofstream out(file, std::ios::app);
  const std::time_t now = std::time(nullptr);
  out << "{\"figure\": \"" << result.figure << "\", \"value\": " << std::fixed
      << std::setprecision(6) << result.value << ", \"unit\": \"" << result.unit
      << "\", \"case\": \"" << result.case_key << "\", \"samples\": [";
  for (size_t i = 0; i < result.samples.size(); ++i) {
    out << (i == 0 ? "" : ", ") << std::defaultfloat << std::setprecision(6) << result.samples[i];
  }
  out << "], \"clock\": \"" << std::put_time(std::gmtime(&now), "%FT%TZ")
      << "\", \"gpu_uuid\": \"cpu\", \"commit\": \"" << commit << "\", \"command\": \"" << command
      << "\"}\n";
  MF_CHECK(out.good(), file.string(), ": cannot write");
}

int run_planner_benchmark(int argc, char** argv, void (*run)(const Options& options)) {
  Options options;
  const std::string program = std::filesystem::path(argv[0]).filename().string();
  options.command = program;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    options.command.append(" ").append(word);
    if (word == "--details") {
      options.details = true;
    } else if ((word == "--commit" || word == "--out") && i + 1 < argc) {
      (word == "--commit" ? options.commit : options.out) = argv[++i];
      options.command.append(" ").append(argv[i]);
    } else {
      options.folder = word;
    }
  }
  if (options.folder.empty()) {
    std::fprintf(stderr, "usage: %s TRACES [--details] [--commit HASH] [--out FILE]\n",
                 program.c_str());
    return 2;
  }
  try {
    run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), error.what());
    return 2;
  }
  return 0;
}

}  // namespace megaflux::bench
