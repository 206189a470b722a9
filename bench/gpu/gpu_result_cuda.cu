#include "gpu_result_cuda.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "megaflux/base/check_cuda.h"

namespace megaflux::bench {
namespace {

// "GPU-1b9f...": what nvidia-smi calls it.
std::string uuid_of(int32_t device) {
  cudaDeviceProp properties = {};
  MF_CUDA(cudaGetDeviceProperties(&properties, device));
  std::ostringstream text;
  text << "GPU" << std::hex << std::setfill('0');
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text << '-';
    text << std::setw(2) << static_cast<unsigned>(static_cast<uint8_t>(properties.uuid.bytes[i]));
  }
  return text.str();
}

std::string iso_time() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

bool read_options(int argc, char** argv, GpuOptions& options) {
  // What a reader can type again: the program, and its arguments without the folders of a machine.
  for (int i = 0; i < argc; ++i) {
    options.command.append(i == 0 ? "" : " ");
    options.command.append(std::filesystem::path(argv[i]).filename().string());
  }
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if ((name != "--commit" && name != "--out") || i + 1 == argc) return false;
    (name == "--commit" ? options.commit : options.out) = argv[++i];
  }
  return true;
}

}  // namespace

double median_of(std::vector<double> samples) {
  MF_INVARIANT(!samples.empty(), "no sample");
  std::sort(samples.begin(), samples.end());
  return (samples[(samples.size() - 1) / 2] + samples[samples.size() / 2]) / 2;
}

void report(const GpuOptions& options, const GpuResult& result, int32_t device) {
  const auto [least, most] = std::minmax_element(result.samples.begin(), result.samples.end());
  const double median = median_of(result.samples);
  std::printf("%-24s %-44s %10.3f %s (%.3f ... %.3f)\n", result.figure.c_str(),
              result.case_key.c_str(), median, result.unit.c_str(), *least, *most);
  if (options.out.empty()) return;
  std::ofstream out(options.out, std::ios::app);
  MF_CHECK(out, "--out: ", options.out, " cannot be written");
  out << "{\"figure\": \"" << result.figure << "\", \"value\": " << std::setprecision(6) << median
      << ", \"unit\": \"" << result.unit << "\", \"case\": \"" << result.case_key
      << "\", \"samples\": [";
  for (size_t i = 0; i < result.samples.size(); ++i) {
    out << (i == 0 ? "" : ", ") << result.samples[i];
  }
  out << "], \"clock\": \"" << iso_time() << "\", \"gpu_uuid\": \"" << uuid_of(device)
      << "\", \"commit\": \"" << options.commit << "\", \"command\": \"" << options.command
      << "\"}\n";
}

int run_gpu_benchmark(int argc, char** argv, void (*run)(const GpuOptions& options)) {
  GpuOptions options;
  if (!read_options(argc, argv, options)) {
    std::fprintf(stderr, "%s [--commit HASH] [--out FILE]\n", argv[0]);
    return 2;
  }
  try {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
      std::fprintf(stderr, "%s: SKIPPED, there is no CUDA device\n", argv[0]);
      return 77;
    }
    run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}

}  // namespace megaflux::bench
