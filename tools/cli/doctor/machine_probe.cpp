#include "cli/doctor/machine_probe.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "megaflux/base/check.h"
#include "megaflux/comm/nccl_library.h"

namespace megaflux::cli {
namespace {

namespace fs = std::filesystem;

// The value after "key   : value" in a file of such lines; empty if there is none.
std::string field_of(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(key, 0) != 0) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

uint64_t memory_field(const std::string& key) {
  const std::string text = field_of("/proc/meminfo", key);
  return std::strtoull(text.c_str(), nullptr, 10) * 1024;
}

// How a version of control groups names what it says of memory, all in bytes.
struct GroupFiles {
  const char* limit;
  const char* use;
  std::array<const char*, 2> cached;  // lines of memory.stat: of the use, what a full group drops
};

uint64_t number_in(const fs::path& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  // "max", or a file that is not there: no limit.
  return file >> number ? number : UINT64_MAX;
}

uint64_t cached_bytes(const fs::path& stat, const GroupFiles& names) {
  std::ifstream file(stat);
  uint64_t sum = 0, bytes = 0;
  for (std::string line; file >> line >> bytes;) {
    if (std::ranges::find(names.cached, line) != names.cached.end()) sum += bytes;
  }
  return sum;
}

// What the control group `group` below `root`, and those that it is in, leave. In a container the
// names from outside may not be there, and `root` is the container's own group.
uint64_t group_room(const fs::path& root, const fs::path& group, const GroupFiles& names) {
  uint64_t room = UINT64_MAX;
  for (fs::path part = group.relative_path();; part = part.parent_path()) {
    const fs::path folder = root / part;
    const uint64_t limit = number_in(folder / names.limit), use = number_in(folder / names.use);
    if (limit != UINT64_MAX && use != UINT64_MAX) {
      const uint64_t held = use - std::min(use, cached_bytes(folder / "memory.stat", names));
      room = std::min(room, limit - std::min(limit, held));
    }
    if (part.empty()) return room;
  }
}

// Lines are "ID:CONTROLLERS:GROUP"; version 2 has ID 0 and names no controllers.
uint64_t control_group_room() {
  const fs::path root = "/sys/fs/cgroup";
  uint64_t room = UINT64_MAX;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) {
      room = std::min(room, group_room(root, group,
                                       {.limit = "memory.max",
                                        .use = "memory.current",
                                        .cached = {"inactive_file", "active_file"}}));
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      room = std::min(room, group_room(root / "memory", group,
                                       {.limit = "memory.limit_in_bytes",
                                        .use = "memory.usage_in_bytes",
                                        .cached = {"total_inactive_file", "total_active_file"}}));
    }
  }
  return room;
}

int32_t usable_cores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return CPU_COUNT(&allowed);
  return static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
}

std::vector<IsaExtension> probe_isa() {
  constexpr std::array<std::pair<const char*, const char*>, 6> kExtensions = {{
      {"avx2", "AVX2"},
      {"fma", "FMA"},
      {"avx512f", "AVX512"},
      {"avx512_bf16", "AVX512-bf16"},
      {"amx_tile", "AMX"},
      {"amx_bf16", "AMX-bf16"},
  }};
  std::istringstream words(field_of("/proc/cpuinfo", "flags"));
  std::set<std::string> flags;
  for (std::string word; words >> word;) flags.insert(word);
  std::vector<IsaExtension> isa;
  for (const auto& [flag, name] : kExtensions) isa.push_back({name, flags.contains(flag)});
  return isa;
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10  date" -> "570.86.10".
std::string driver_version() {
  std::istringstream words(field_of("/proc/driver/nvidia/version", "NVRM version"));
  for (std::string word; words >> word;) {
    const bool is_version = std::all_of(word.begin(), word.end(),
                                        [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
    if (is_version && word.find('.') != std::string::npos) return word;
  }
  return {};
}

std::vector<std::string> gpu_models() {
  std::vector<std::string> models;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    const std::string model = field_of(entry.path() / "information", "Model");
    models.push_back(model.empty() ? "unknown model" : model);
  }
  if (!models.empty()) return models;
  // Containers may show the device files without the folder above.
  for (int i = 0; fs::exists("/dev/nvidia" + std::to_string(i), error); ++i) {
    models.emplace_back("unknown model");
  }
  return models;
}

std::string program_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = folder + "/" + name;
    std::error_code ignored;
    if (fs::is_regular_file(candidate, ignored) && access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return {};
}

}  // namespace

CpuFacts probe_cpu() {
  const std::string model = field_of("/proc/cpuinfo", "model name");
  return {.model = model.empty() ? "unknown" : model,
          .num_cores = usable_cores(),
          .isa = probe_isa(),
          .memory_bytes = memory_field("MemTotal"),
          .available_memory_bytes = std::min(memory_field("MemAvailable"), control_group_room())};
}

CudaFacts probe_cuda() {
  CudaFacts facts{.driver = driver_version(),
                  .gpus = gpu_models(),
                  .nvcc = program_on_path("nvcc"),
                  .nccl = {},
                  .nccl_path = {},
                  .nccl_obstacle = {}};
  try {
    const NcclLibrary library;
    facts.nccl = nccl_version_text(library.version());
    facts.nccl_path = library.path();
  } catch (const Error& error) {
    facts.nccl_obstacle = error.what();
  }
  return facts;
}

}  // namespace megaflux::cli
