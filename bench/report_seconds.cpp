// How long does a report of a large trace take, how large is the file, and how much memory is held?
// The trace has 1,000 steps of 100 layers with 256 experts, 102 MB of loads without sources, whose
// popular experts drift; it is made here, in a temporary folder, and thrown away again.
//
//   report_seconds PROGRAM [--commit HASH] [--out FILE]
//
// PROGRAM is the program megaflux. Printed, and added to FILE: report_seconds (wall clock of the
// whole command), report_bytes, and report_peak_bytes (resident set, the trace included).
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/base/rng.h"
#include "megaflux/trace/trace_file.h"
#include "planner_cases.h"

namespace megaflux::bench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSteps = 1000;
constexpr int32_t kLayers = 100;
constexpr int32_t kExperts = 256;
constexpr int32_t kTopk = 8;
constexpr double kRows = 64.0 * 4096 * kTopk;  // of a step

// Logarithms of popularity: each walks on its own and is drawn back to 0, so that a layer has a
// kappa between 2 and 4 and its hot experts change within some fifty steps.
class Popularity {
 public:
  explicit Popularity(uint64_t seed) : rng_(seed), logs_(kExperts) {
    for (int i = 0; i < 200; ++i) step();
  }
  void step() {
    for (double& log : logs_) {
      const double noise = rng_.uniform() + rng_.uniform() + rng_.uniform() - 1.5;  // variance 1/4
      log = 0.98 * log + 0.4 * noise;
    }
  }
  void append_counts(std::vector<int32_t>& loads) const {
    double sum = 0;
    for (const double log : logs_) sum += std::exp(log);
    for (const double log : logs_) {
      loads.push_back(static_cast<int32_t>(kRows * std::exp(log) / sum));
    }
  }

 private:
  Rng rng_;
  std::vector<double> logs_;
};

Trace drifting_trace() {
  TraceData data;
  data.meta.num_experts = kExperts;
  data.meta.topk = kTopk;
  data.meta.model = "drifting popularity";
  data.meta.time_ordered = true;
  data.num_steps = kSteps;
  data.load_ranks = 1;
  data.loads.reserve(static_cast<size_t>(kSteps) * kLayers * kExperts);
  std::vector<Popularity> layers;
  for (int32_t layer = 0; layer < kLayers; ++layer) {
    data.meta.layers.push_back(layer);
    layers.emplace_back(static_cast<uint64_t>(layer) + 1);
  }
  for (int64_t step = 0; step < kSteps; ++step) {
    for (Popularity& layer : layers) {
      layer.step();
      layer.append_counts(data.loads);
    }
  }
  return Trace(std::move(data));
}

struct Run {
  double seconds = 0;
  double peak_bytes = 0;
};

Run run_report(const std::string& program, const fs::path& folder) {
  const std::string trace = folder / "trace.npz", html = folder / "report.html";
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = fork();
  MF_CHECK(child >= 0, "fork: no process");
  if (child == 0) {
    execl(program.c_str(), program.c_str(), "report", trace.c_str(), "-o", html.c_str(), "--ranks",
          "64", "--model", "dsv3", static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  rusage usage = {};
  wait4(child, &status, 0, &usage);
  MF_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, program, " report ended with status ",
           status);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return {.seconds = seconds.count(), .peak_bytes = static_cast<double>(usage.ru_maxrss) * 1024};
}

void measure(const Options& options) {
  const fs::path folder =
      fs::temp_directory_path() / ("report_seconds_" + std::to_string(getpid()));
  fs::create_directories(folder);
  write_trace(folder / "trace.npz", drifting_trace(), TracePacking::kStored);
  const Run run = run_report(options.folder, folder);
  const auto bytes = static_cast<double>(fs::file_size(folder / "report.html"));
  fs::remove_all(folder);
  const std::string case_key =
      "op=report,H=7168,I=2048,E=256,K=8,P=64,s=2,route=drifting,steps=1000,layers=100,"
      "planner=megaflux,objective=forward,exec=cpu";
  for (const Result& result :
       {Result{"report_seconds", run.seconds, "s", case_key, {run.seconds}},
        Result{"report_bytes", bytes, "bytes", case_key, {bytes}},
        Result{"report_peak_bytes", run.peak_bytes, "bytes", case_key, {run.peak_bytes}}}) {
    std::printf("%-18s %.10g %s\n", result.figure.c_str(), result.value, result.unit.c_str());
    if (!options.out.empty()) {
      append_result(options.out, result, options.commit, options.command);
    }
  }
}

}  // namespace
}  // namespace megaflux::bench

int main(int argc, char** argv) {
  return megaflux::bench::run_planner_benchmark(argc, argv, megaflux::bench::measure);
}
