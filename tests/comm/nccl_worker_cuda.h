// Test cases of several ranks, each a process with a GPU of its own: how they are started and find
// each other.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "comm/worker_process_cuda.h"
#include "gpu/gpu_test.cuh"
#include "megaflux/comm/nccl_group_cuda.h"

namespace megaflux::test {

inline constexpr int32_t kRanks = 2;

// One process of a test case.
struct NcclWorker {
  int32_t rank = 0;
  std::filesystem::path folder;  // shared by the ranks of the case

  // The id number `index` of the case: rank 0 makes it.
  NcclUniqueId unique_id(int index) const {
    const auto file = folder / ("id" + std::to_string(index));
    if (rank == 0) {
      const NcclUniqueId id = NcclLibrary(variable("MF_TEST_NCCL")).make_unique_id();
      std::ofstream(file.string() + ".part", std::ios::binary).write(id.bytes, sizeof(id.bytes));
      std::filesystem::rename(file.string() + ".part", file);
      return id;
    }
    await(file);
    NcclUniqueId id;
    std::ifstream(file, std::ios::binary).read(id.bytes, sizeof(id.bytes));
    return id;
  }
  // A meeting of both ranks without GPU and NCCL.
  void meet(const std::string& name) const {
    std::ofstream(folder / (name + std::to_string(rank)));
    await(folder / (name + std::to_string(1 - rank)));
  }
  // What the other rank has to say under this name; `mine` is what it is told.
  std::string told_by_peer(const std::string& name, const std::string& mine) const {
    std::ofstream(folder / (name + ".of" + std::to_string(rank))) << mine;
    meet(name);
    std::string theirs;
    std::getline(std::ifstream(folder / (name + ".of" + std::to_string(1 - rank))), theirs);
    return theirs;
  }
  // A configuration for the groups of a test.
  NcclConfig config(int index = 0) const {
    return {.rank = rank,
            .num_ranks = kRanks,
            .device = rank,
            .unique_id = unique_id(index),
            .library_path = variable("MF_TEST_NCCL"),
            .start_epoch = 0xfffefff0u,  // near the wrap, once a group has recovered
            .waits = {.deadline = std::chrono::seconds(2)}};
  }

 private:
  static void await(const std::filesystem::path& file) {
    for (int i = 0; i < 3000 && !std::filesystem::exists(file); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(std::filesystem::exists(file)) << file;
  }
};

// The process that start_processes has started.
inline NcclWorker this_worker() {
  return {std::atoi(variable("MF_TEST_RANK").c_str()), variable("MF_TEST_FOLDER")};
}
inline std::string this_case() {
  return variable("MF_TEST_CASE");
}

// Why no case in processes can run here; empty = it can.
inline std::string nccl_obstacle() {
  if (gpu::size() == gpu::Size::kSanitize) {
    return "the sanitizer would watch NCCL's kernels too; LocalGroup runs the same code";
  }
  try {
    NcclLibrary(variable("MF_TEST_NCCL"));
  } catch (const Error& error) {
    return std::string(error.what()) + "; MF_TEST_NCCL may name the library";
  }
  return "";
}

// The exit status of each process of a case: this program once more, on the disabled test `worker`.
inline std::vector<int> run_processes(const std::string& worker, const std::string& case_name,
                                      int32_t num_processes) {
  std::string folder = (std::filesystem::temp_directory_path() / "megaflux-XXXXXX").string();
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  std::vector<pid_t> children;
  for (int32_t rank = 0; rank < num_processes; ++rank) {
    children.push_back(
        start_worker(worker, {"MF_TEST_RANK=" + std::to_string(rank), "MF_TEST_FOLDER=" + folder,
                              "MF_TEST_CASE=" + case_name}));
  }
  std::vector<int> statuses;
  for (const pid_t child : children) statuses.push_back(status_of(child));
  std::filesystem::remove_all(folder);
  return statuses;
}

}  // namespace megaflux::test
