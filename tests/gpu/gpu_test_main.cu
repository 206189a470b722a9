// The main of every GPU test program: --size, a skip that shouts where no GPU is, and one line that
// sums up.
#include <cstdio>
#include <cstring>
#include <string>

#include "gpu/gpu_test.cuh"

namespace megaflux::gpu {
namespace {

constexpr int kSkipped = 77;
constexpr int kBadArgument = 2;
// The programs hold code for sm_90a, which runs there and nowhere else.
constexpr int kComputeMajor = 9;
constexpr int kComputeMinor = 0;

Size chosen_size = Size::kQuick;
int usable_gpus = 0;

// Empty, or why no test can run here.
std::string obstacle() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties = {};
    MF_CUDA(cudaGetDeviceProperties(&properties, device));
    if (properties.major != kComputeMajor || properties.minor != kComputeMinor) {
      return std::string("device ") + std::to_string(device) + ", " + properties.name +
             ", has compute capability " + std::to_string(properties.major) + "." +
             std::to_string(properties.minor) + ", and this program holds code for 9.0a";
    }
  }
  usable_gpus = count;
  return count > 0 ? "" : "there is no CUDA device";
}

bool read_size(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--size=quick") {
      chosen_size = Size::kQuick;
    } else if (argument == "--size=sanitize") {
      chosen_size = Size::kSanitize;
    } else if (argument == "--size=soak") {
      chosen_size = Size::kSoak;
    } else {
      std::fprintf(
          stderr,
          "%s: unknown argument; --size=quick, sanitize or soak, and what GoogleTest takes\n",
          argv[i]);
      return false;
    }
  }
  return true;
}

// Soak suites run at that size and no other. A filter from the command line stays inside this.
void apply_size() {
  std::string& filter = GTEST_FLAG_GET(filter);
  if (chosen_size == Size::kSoak) {
    if (filter == "*") filter = "*Soak*";
  } else {
    filter += filter.find('-') == std::string::npos ? "-*Soak*" : ":*Soak*";
  }
}

int run(const char* program) {
  const testing::UnitTest& suite = *testing::UnitTest::GetInstance();
  const std::string lack = obstacle();
  if (!lack.empty()) {
    std::printf("!!! %s: SKIPPED, no test can run here: %s\n", program, lack.c_str());
    std::printf("%s: 0 passed, 0 failed, %d skipped\n", program, suite.total_test_count());
    return kSkipped;
  }
  const bool has_failed = RUN_ALL_TESTS() != 0;
  std::printf("%s: %d passed, %d failed, %d skipped in %.1f s on %d GPU(s)\n", program,
              suite.successful_test_count(), suite.failed_test_count(), suite.skipped_test_count(),
              static_cast<double>(suite.elapsed_time()) / 1000, usable_gpus);
  if (suite.skipped_test_count() > 0) {
    std::printf("!!! %d test(s) were SKIPPED: what they lack stands above\n",
                suite.skipped_test_count());
  }
  // An empty selection must not look like success; a program may have nothing to soak.
  const bool is_empty = suite.test_to_run_count() == 0 && chosen_size != Size::kSoak;
  if (is_empty) std::printf("%s: no test was selected\n", program);
  return has_failed || is_empty ? 1 : 0;
}

}  // namespace

Size size() {
  return chosen_size;
}

int num_gpus() {
  return usable_gpus;
}

}  // namespace megaflux::gpu

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!megaflux::gpu::read_size(argc, argv)) return megaflux::gpu::kBadArgument;
  megaflux::gpu::apply_size();
  const char* slash = std::strrchr(argv[0], '/');
  return megaflux::gpu::run(slash == nullptr ? argv[0] : slash + 1);
}
