// NcclGroup: one process a GPU. The test starts this program again, once a rank, on the worker
// below; MF_TEST_NCCL names NCCL's library where the loader does not find it.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/toy_rig_cuda.h"
#include "megaflux/comm/nccl_group_cuda.h"
#include "megaflux/comm/shared_memory_cuda.h"

extern char** environ;

namespace megaflux {
namespace {

using namespace std::chrono_literals;
using test::add_toy_fields;
using test::error_of;
using test::kToyPayload;
using test::ToyFault;
using test::ToyFields;
using test::ToyRig;

constexpr int32_t kRanks = 2;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// One process of a test case.
struct Worker {
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
  NcclConfig config(int index = 0) const {
    return {.rank = rank,
            .num_ranks = kRanks,
            .device = rank,
            .unique_id = unique_id(index),
            .library_path = variable("MF_TEST_NCCL"),
            .payload_words = kToyPayload,
            .start_epoch = 0xfffefff0u,  // near the wrap, once the rig has recovered
            .waits = {.deadline = 2s}};
  }

 private:
  static void await(const std::filesystem::path& file) {
    for (int i = 0; i < 3000 && !std::filesystem::exists(file); ++i) {
      std::this_thread::sleep_for(10ms);
    }
    ASSERT_TRUE(std::filesystem::exists(file)) << file;
  }
};

struct Toy {
  explicit Toy(const NcclConfig& config, int32_t ctas_per_rank = 2, size_t shared_bytes = 0)
      : fields(add_toy_fields(layout, config.num_ranks)),
        group(config, layout),
        rig(group, fields, ctas_per_rank, shared_bytes) {
    // The rig has poisoned what peers post into; nobody posts before that.
    group.recover();
  }
  void run_sound(int64_t count) {
    const int64_t before = rig.report().num_entered;
    rig.launch_many(count);
    group.synchronize();
    rig.expect_right(before + count);
  }

  Layout layout;
  ToyFields fields;
  NcclGroup group;
  ToyRig rig;
};

void launches_and_recovers(const Worker& worker) {
  Toy toy(worker.config());
  toy.run_sound(gpu::by_size(2000, 20, 2000));
  toy.group.recover();
  toy.group.set_delay_fuzz(worker.rank + 1);
  toy.run_sound(gpu::by_size(200, 10, 200));
}

// A communicator of the caller's stays the caller's.
void takes_a_communicator(const Worker& worker) {
  MF_CUDA(cudaSetDevice(worker.rank));
  const NcclLibrary nccl(variable("MF_TEST_NCCL"));
  // The copy that is loaded goes before any path.
  EXPECT_EQ(NcclLibrary("/no/such/libnccl.so").path(), nccl.path());
  NcclConfig config = worker.config();
  config.comm = nccl.make_comm(worker.unique_id(1), kRanks, worker.rank);
  for (int round = 0; round < 2; ++round) {
    Toy toy(config);
    toy.run_sound(10);
  }
  config.rank = 1 - worker.rank;
  EXPECT_EQ(error_of([&] { Toy toy(config); }).second,
            "comm: is rank " + std::to_string(worker.rank) + " of 2, the configuration says rank " +
                std::to_string(config.rank) + " of 2");
  nccl.destroy_comm(config.comm);
}

void groups_end_in_any_order(const Worker& worker) {
  auto first = std::make_unique<Toy>(worker.config(0));
  auto second = std::make_unique<Toy>(worker.config(1));
  for (int i = 0; i < 20; ++i) {
    first->rig.launch_many(1);
    second->rig.launch_many(1);
  }
  first->group.synchronize();
  second->group.synchronize();
  (worker.rank == 0 ? first : second).reset();
  worker.meet("one_is_gone");
  (worker.rank == 0 ? second : first).reset();
}

void disagree(const Worker& worker) {
  NcclConfig config = worker.config();
  config.config_hash = 5 + worker.rank;
  EXPECT_EQ(error_of([&] { Toy toy(config); }).second,
            "ranks disagree: rank 1 makes the group with config hash 6, rank 0 with 5");
  Layout layout;
  layout.add<float>("x", 10 + worker.rank);
  EXPECT_EQ(error_of([&] { NcclGroup group(worker.config(1), layout); }).second,
            "ranks disagree: rank 1 makes the group with another layout than rank 0");
  Toy toy(worker.config(2));
  toy.rig.launch({.fault = ToyFault::kOtherPlan, .faulty_rank = 1});
  const auto [code, text] = error_of([&] { toy.group.synchronize(); });
  EXPECT_EQ(code, ErrorCode::kDisagree);
  EXPECT_NE(text.find("ranks disagree: rank 1 entered epoch 4294967281 with plan hash"),
            std::string::npos)
      << text;
  toy.run_sound(5);
}

void one_never_launches(const Worker& worker) {
  NcclConfig config = worker.config();
  config.waits.deadline = 500ms;
  Toy toy(config);
  toy.run_sound(3);
  if (worker.rank == 0) {
    toy.rig.launch();
    const auto [code, text] = error_of([&] { toy.group.synchronize(); });
    EXPECT_EQ(code, ErrorCode::kTimeout);
    EXPECT_NE(text.find("waiting for entry of rank 1"), std::string::npos) << text;
  }
  worker.meet("timed_out");
  if (worker.rank == 1) {
    // This rank learns of it at its next launch, which does nothing.
    toy.rig.launch();
    const auto [code, text] = error_of([&] { toy.group.synchronize(); });
    EXPECT_EQ(code, ErrorCode::kTimeout);
    EXPECT_NE(text.find("rank 0 (compute, CTA 0) timed out"), std::string::npos) << text;
  }
  toy.group.recover();
  toy.run_sound(7);
}

void one_is_killed(const Worker& worker) {
  NcclConfig config = worker.config();
  config.waits.deadline = 500ms;
  Toy toy(config);
  toy.run_sound(3);
  worker.meet("both_ran");
  if (worker.rank == 1) {
    std::fflush(nullptr);
    kill(getpid(), SIGKILL);
  }
  std::this_thread::sleep_for(500ms);  // until the driver has taken the process apart
  toy.rig.launch();
  EXPECT_NE(error_of([&] { toy.group.synchronize(); }).second.find("entry of rank 1"),
            std::string::npos);
  const auto [code, text] = error_of([&] { toy.group.recover(); });
  EXPECT_EQ(code, ErrorCode::kTimeout);
  EXPECT_NE(text.find("rank 0 waited 500 ms for all ranks in recover()"), std::string::npos)
      << text;
}

// Weights that were there before the group, from cudaMalloc and from virtual memory calls.
void maps_allocations(const Worker& worker) {
  constexpr size_t kBytes = size_t{5} << 20;
  Toy toy(worker.config());
  const gpu::DeviceArray<std::byte> plain(kBytes, worker.rank);
  const auto virtual_memory = allocate_shared(worker.rank, kBytes);
  const auto pattern = [](int32_t rank, int which) {
    std::vector<uint64_t> words(kBytes / sizeof(uint64_t));
    for (size_t i = 0; i < words.size(); ++i) words[i] = mix64(i * 4 + rank * 2 + which + 1);
    return words;
  };
  std::byte* const own[] = {plain.data(), virtual_memory.get()};
  for (int which = 0; which < 2; ++which) {
    const std::vector<uint64_t> words = pattern(worker.rank, which);
    MF_CUDA(cudaSetDevice(worker.rank));
    MF_CUDA(cudaMemcpy(own[which], words.data(), kBytes, cudaMemcpyHostToDevice));
    MF_CUDA(cudaDeviceSynchronize());
    // Two pointers into one allocation; the second time nothing is mapped.
    const size_t offset = 4096 * (1 + worker.rank);
    const std::vector<std::byte*> whole = toy.group.map_allocation(own[which], kBytes);
    const std::vector<std::byte*> part = toy.group.map_allocation(own[which] + offset, 4096);
    ASSERT_EQ(whole.size(), 2u);
    EXPECT_EQ(whole[worker.rank], own[which]);
    const int32_t peer = 1 - worker.rank;
    EXPECT_EQ(part[peer], whole[peer] + 4096 * (1 + peer));
    std::vector<uint64_t> seen(words.size());
    MF_CUDA(cudaMemcpy(seen.data(), whole[peer], kBytes, cudaMemcpyDeviceToHost));
    EXPECT_EQ(seen, pattern(peer, which)) << (which == 0 ? "cudaMalloc" : "virtual memory");
  }
  EXPECT_EQ(toy.group.map_allocation(worker.rank == 0 ? nullptr : own[0], 8)[0], nullptr);
  int on_host = 0;
  void* const bad = worker.rank == 1 ? static_cast<void*>(&on_host) : own[0];
  const std::string text = error_of([&] { toy.group.map_allocation(bad, 4); }).second;
  EXPECT_NE(text.find(worker.rank == 1 ? "is no device memory" : "rank 1 gave memory"),
            std::string::npos)
      << text;
  toy.run_sound(5);
  worker.meet("read");  // before either lets go
}

// Launches that fill the device beside an all-gather of NCCL's on a second stream. In one order on
// all ranks both end; crossed, each waits for what the other's device has no room for.
void shares_the_device_with_nccl(const Worker& worker) {
  NcclConfig config = worker.config(0);
  config.waits.deadline = 1s;
  cudaDeviceProp properties = {};
  MF_CUDA(cudaGetDeviceProperties(&properties, worker.rank));
  MF_CUDA(cudaSetDevice(worker.rank));
  Toy toy(config, properties.multiProcessorCount, properties.sharedMemPerBlockOptin - 8192);
  const NcclLibrary& nccl = toy.group.library();
  NcclComm* const comm = nccl.make_comm(worker.unique_id(1), kRanks, worker.rank);
  constexpr size_t kBytes = size_t{64} << 20;
  const gpu::DeviceArray<std::byte> mine(kBytes, worker.rank), all(kRanks * kBytes, worker.rank);
  cudaStream_t second = nullptr;
  MF_CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  const auto gather = [&] {
    nccl.all_gather(mine.data(), all.data(), kBytes, comm, reinterpret_cast<NcclStream*>(second));
  };
  gather();  // once alone: connections are made at the first call
  MF_CUDA(cudaStreamSynchronize(second));
  toy.run_sound(2);
  for (const bool is_nccl_first : {true, false}) {
    worker.meet(is_nccl_first ? "nccl_first" : "ours_first");
    if (is_nccl_first) gather();
    toy.rig.launch();
    if (!is_nccl_first) gather();
    toy.group.synchronize();
    MF_CUDA(cudaStreamSynchronize(second));
  }
  toy.rig.expect_right(4);
  worker.meet("crossed");
  if (worker.rank == 0) {
    toy.rig.launch();
    std::this_thread::sleep_for(100ms);
    gather();
  } else {
    gather();
    std::this_thread::sleep_for(100ms);
    toy.rig.launch();
  }
  const auto [code, text] = error_of([&] { toy.group.synchronize(); });
  EXPECT_EQ(code, ErrorCode::kTimeout);
  EXPECT_NE(text.find("rank 0 (compute, CTA 0) timed out"), std::string::npos) << text;
  EXPECT_NE(text.find("waiting for entry of rank 1"), std::string::npos) << text;
  MF_CUDA(cudaStreamSynchronize(second));
  toy.group.recover();
  toy.run_sound(2);
  MF_CUDA(cudaStreamDestroy(second));
  nccl.abort_comm(comm);
}

const std::map<std::string, void (*)(const Worker&)>& cases() {
  static const std::map<std::string, void (*)(const Worker&)> all = {
      {"LaunchesAndRecovers", launches_and_recovers},
      {"TakesACommunicator", takes_a_communicator},
      {"GroupsEndInAnyOrder", groups_end_in_any_order},
      {"Disagree", disagree},
      {"OneNeverLaunches", one_never_launches},
      {"OneIsKilled", one_is_killed},
      {"MapsAllocations", maps_allocations},
      {"SharesTheDeviceWithNccl", shares_the_device_with_nccl},
  };
  return all;
}

// One rank of a case; NcclGroup.* start it.
TEST(NcclWorker, DISABLED_Rank) {
  const Worker worker = {std::atoi(variable("MF_TEST_RANK").c_str()), variable("MF_TEST_FOLDER")};
  cases().at(variable("MF_TEST_CASE"))(worker);
}

class NcclGroupTest : public ::testing::TestWithParam<std::string> {
 protected:
  static pid_t start(int32_t rank, const std::filesystem::path& folder) {
    std::vector<std::string> words;
    for (char** word = environ; *word != nullptr; ++word) words.emplace_back(*word);
    words.push_back("MF_TEST_RANK=" + std::to_string(rank));
    words.push_back("MF_TEST_FOLDER=" + folder.string());
    words.push_back("MF_TEST_CASE=" + GetParam());
    std::vector<char*> environment;
    for (std::string& word : words) environment.push_back(word.data());
    environment.push_back(nullptr);
    std::string arguments[] = {"gpu_test_comm", "--gtest_filter=NcclWorker.*",
                               "--gtest_also_run_disabled_tests", "--gtest_brief=1"};
    char* const argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                          arguments[3].data(), nullptr};
    pid_t child = -1;
    EXPECT_EQ(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, argv, environment.data()), 0);
    return child;
  }
  // The exit status; 128 + the signal if one ended it; -1 after a minute.
  static int status_of(pid_t child) {
    for (int i = 0; i < 6000; ++i) {
      int status = 0;
      if (waitpid(child, &status, WNOHANG) == child) {
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      std::this_thread::sleep_for(10ms);
    }
    kill(child, SIGKILL);
    return -1;
  }
};

TEST_P(NcclGroupTest, TwoProcesses) {
  MF_NEEDS_GPUS(kRanks);
  if (gpu::size() == gpu::Size::kSanitize) {
    GTEST_SKIP() << "the sanitizer would watch NCCL's kernels too; LocalGroup runs the same code";
  }
  try {
    NcclLibrary(variable("MF_TEST_NCCL"));
  } catch (const Error& error) {
    GTEST_SKIP() << error.what() << "; MF_TEST_NCCL may name the library";
  }
  std::string name = (std::filesystem::temp_directory_path() / "megaflux-XXXXXX").string();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  pid_t children[kRanks];
  for (int32_t rank = 0; rank < kRanks; ++rank) children[rank] = start(rank, name);
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    const bool is_killed = GetParam() == "OneIsKilled" && rank == 1;
    EXPECT_EQ(status_of(children[rank]), is_killed ? 128 + SIGKILL : 0) << "rank " << rank;
  }
  std::filesystem::remove_all(name);
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& [name, call] : cases()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(NcclGroup, NcclGroupTest, ::testing::ValuesIn(case_names()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace megaflux
