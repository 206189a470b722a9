// NcclGroup: one process a GPU. The test starts this program again, once a rank, on the worker
// below; MF_TEST_NCCL names NCCL's library where the loader does not find it.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/mapped_memory_cuda.h"
#include "comm/nccl_rig_cuda.h"

namespace megaflux {
namespace {

using namespace std::chrono_literals;
using test::CallersNccl;
using test::error_of;
using test::kRanks;
using test::MappedMemory;
using test::NcclToy;
using test::NcclWorker;
using test::PooledMemory;
using test::ToyFault;
using test::variable;

void launches_and_recovers(const NcclWorker& worker) {
  NcclToy toy(worker.config());
  toy.run_sound(gpu::by_size(2000, 20, 2000));
  toy.group.recover();
  toy.group.set_delay_fuzz(worker.rank + 1);
  toy.run_sound(gpu::by_size(200, 10, 200));
}

// A communicator of the caller's stays the caller's.
void takes_a_communicator(const NcclWorker& worker) {
  MF_CUDA(cudaSetDevice(worker.rank));
  const NcclLibrary nccl(variable("MF_TEST_NCCL"));
  // The copy that is loaded goes before any path.
  EXPECT_EQ(NcclLibrary("/no/such/libnccl.so").path(), nccl.path());
  NcclConfig config = worker.config();
  CallersNccl callers(nccl, worker.unique_id(1), worker.rank);
  config.comm = callers.comm();
  for (int round = 0; round < 2; ++round) {
    NcclToy toy(config);
    toy.run_sound(10);
  }
  config.rank = 1 - worker.rank;
  EXPECT_EQ(error_of([&] { NcclToy toy(config); }).second,
            "comm: is rank " + std::to_string(worker.rank) + " of 2, the configuration says rank " +
                std::to_string(config.rank) + " of 2");
  callers.destroy();
}

// Ends with an error, and so does everything that was begun on the way.
void one_never_comes(const NcclWorker& worker) {
  NcclConfig config = worker.config();
  config.creation_deadline = 1s;
  const auto [code, text] = error_of([&] { NcclGroup group(config, Layout()); });
  EXPECT_EQ(code, ErrorCode::kTimeout);
  EXPECT_EQ(text,
            "rank 0 waited 1000 ms for all 2 ranks of a new communicator: a rank is missing or "
            "stuck");
}

// The same for a communicator of the caller's, who aborts it then.
void one_never_comes_to_a_communicator(const NcclWorker& worker) {
  MF_CUDA(cudaSetDevice(worker.rank));
  NcclConfig config = worker.config();
  CallersNccl callers(NcclLibrary(config.library_path), worker.unique_id(1), worker.rank);
  config.comm = callers.comm();
  config.creation_deadline = 1s;
  if (worker.rank == 0) {
    const auto [code, text] = error_of([&] { NcclGroup group(config, Layout()); });
    EXPECT_EQ(code, ErrorCode::kTimeout);
    EXPECT_NE(text.find("rank 0 waited 1000 ms for all ranks in a gather on the communicator that "
                        "was handed in"),
              std::string::npos)
        << text;
  }
  worker.meet("timed_out");
  callers.abort();
  MF_CUDA(cudaDeviceSynchronize());
}

// A group of one rank has nobody to wait for, and makes all the same calls.
void one_rank_alone(const NcclWorker& worker) {
  const gpu::DeviceArray<std::byte> plain(1 << 20);
  const auto virtual_memory = allocate_shared(0, 1 << 20);
  NcclConfig config = worker.config();
  config.num_ranks = 1;
  NcclToy toy(config);
  toy.run_sound(20);
  for (std::byte* const memory : {plain.data(), virtual_memory.get()}) {
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(toy.group.map_allocation(memory, 1 << 20), std::vector<std::byte*>{memory});
    }
  }
  int on_host = 0;
  const auto [code, text] = error_of([&] { toy.group.map_allocation(&on_host, 4); });
  EXPECT_EQ(code, ErrorCode::kBadInput);
  EXPECT_EQ(text.find("map_allocation: rank 0: memory: "), 0u) << text;
  EXPECT_NE(text.find(" is no device memory"), std::string::npos) << text;
  toy.group.recover();
  toy.run_sound(20);
}

void groups_end_in_any_order(const NcclWorker& worker) {
  auto first = std::make_unique<NcclToy>(worker.config(0));
  auto second = std::make_unique<NcclToy>(worker.config(1));
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

void disagree(const NcclWorker& worker) {
  NcclConfig config = worker.config();
  config.config_hash = 5 + worker.rank;
  EXPECT_EQ(error_of([&] { NcclToy toy(config); }).second,
            "ranks disagree: rank 1 makes the group with config hash 6, rank 0 with 5");
  Layout layout;
  layout.add<float>("x", 10 + worker.rank);
  EXPECT_EQ(error_of([&] { NcclGroup group(worker.config(1), layout); }).second,
            "ranks disagree: rank 1 makes the group with another layout than rank 0");
  NcclToy toy(worker.config(2));
  toy.rig.launch({.fault = ToyFault::kOtherPlan, .faulty_rank = 1});
  const auto [code, text] = error_of([&] { toy.group.synchronize(); });
  EXPECT_EQ(code, ErrorCode::kDisagree);
  EXPECT_NE(text.find("ranks disagree: rank 1 entered epoch 4294967281 with plan hash"),
            std::string::npos)
      << text;
  toy.run_sound(5);
}

void one_never_launches(const NcclWorker& worker) {
  NcclConfig config = worker.config();
  config.waits.deadline = 500ms;
  NcclToy toy(config);
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

void one_is_killed(const NcclWorker& worker) {
  NcclConfig config = worker.config();
  config.waits.deadline = 500ms;
  NcclToy toy(config);
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
void maps_allocations(const NcclWorker& worker) {
  constexpr size_t kBytes = size_t{5} << 20;
  const gpu::DeviceArray<std::byte> plain(kBytes, worker.rank);
  const auto virtual_memory = allocate_shared(worker.rank, kBytes);
  auto toy = std::make_unique<NcclToy>(worker.config());
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
    const std::vector<std::byte*> whole = toy->group.map_allocation(own[which], kBytes);
    const std::vector<std::byte*> part = toy->group.map_allocation(own[which] + offset, 4096);
    ASSERT_EQ(whole.size(), 2u);
    EXPECT_EQ(whole[worker.rank], own[which]);
    const int32_t peer = 1 - worker.rank;
    EXPECT_EQ(part[peer], whole[peer] + 4096 * (1 + peer));
    std::vector<uint64_t> seen(words.size());
    MF_CUDA(cudaMemcpy(seen.data(), whole[peer], kBytes, cudaMemcpyDeviceToHost));
    EXPECT_EQ(seen, pattern(peer, which)) << (which == 0 ? "cudaMalloc" : "virtual memory");
  }
  EXPECT_EQ(toy->group.map_allocation(worker.rank == 0 ? nullptr : own[0], 8)[0], nullptr);
  toy->run_sound(5);
  toy.reset();
  worker.meet("ended");  // mapped memory is freed after that
}

// What one rank cannot share is mapped on no rank, and all throw the same.
void maps_all_or_nothing(const NcclWorker& worker) {
  constexpr size_t kBytes = size_t{5} << 20;
  std::vector<gpu::DeviceArray<std::byte>> fresh;
  for (int i = 0; i < 3; ++i) fresh.emplace_back(kBytes, worker.rank);
  const MappedMemory no_export(worker.rank);
  auto toy = std::make_unique<NcclToy>(worker.config());
  int on_host = 0;
  const PooledMemory pooled(worker.rank, kBytes);
  void* const bad[] = {&on_host, no_export.memory(), pooled.memory()};
  for (int i = 0; i < 3; ++i) {
    void* const mine = worker.rank == 1 ? bad[i] : fresh[i].data();
    const std::string text = error_of([&] { toy->group.map_allocation(mine, 4); }).second;
    EXPECT_EQ(text.find("map_allocation: rank 1: "), 0u) << text;
    EXPECT_EQ(text, worker.told_by_peer("text" + std::to_string(i), text));
    // The rank that could have shared is not half mapped.
    const std::vector<std::byte*> now = toy->group.map_allocation(fresh[i].data(), kBytes);
    uint64_t seen = 0;
    MF_CUDA(cudaMemcpy(&seen, now[1 - worker.rank], sizeof(seen), cudaMemcpyDeviceToHost));
    EXPECT_EQ(seen, 0xcdcdcdcdcdcdcdcdu);
  }
  toy->run_sound(5);
  toy.reset();
  worker.meet("ended");  // mapped memory is freed after that
}

// Launches that fill the device beside an all-reduce of NCCL's on a second stream. In one order on
// all ranks both end; crossed, each waits for what the other's device has no room for.
void shares_the_device_with_nccl(const NcclWorker& worker) {
  NcclConfig config = worker.config(0);
  config.waits.deadline = 1s;
  cudaDeviceProp properties = {};
  MF_CUDA(cudaGetDeviceProperties(&properties, worker.rank));
  MF_CUDA(cudaSetDevice(worker.rank));
  NcclToy toy(config, properties.multiProcessorCount, properties.sharedMemPerBlockOptin - 8192);
  CallersNccl callers(toy.group.library(), worker.unique_id(1), worker.rank);
  constexpr size_t kCount = size_t{16} << 20;
  const std::vector<float> ones(kCount, 1.0f);
  gpu::DeviceArray<float> sums{std::span<const float>(ones), worker.rank};
  float expected = 1;
  cudaStream_t second = nullptr;
  MF_CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  const auto reduce = [&] {
    callers.all_reduce(sums.data(), kCount, second);
    expected *= kRanks;
  };
  const auto expect_sums = [&] {
    MF_CUDA(cudaStreamSynchronize(second));
    const std::vector<float> seen = sums.download();
    EXPECT_EQ(std::count(seen.begin(), seen.end(), expected), static_cast<ptrdiff_t>(kCount));
  };
  reduce();  // once alone: connections are made at the first call
  expect_sums();
  toy.run_sound(2);
  for (const bool is_nccl_first : {true, false}) {
    worker.meet(is_nccl_first ? "nccl_first" : "ours_first");
    if (is_nccl_first) reduce();
    toy.rig.launch();
    if (!is_nccl_first) reduce();
    toy.group.synchronize();
    expect_sums();
  }
  toy.rig.expect_right(4);
  worker.meet("crossed");
  if (worker.rank == 0) {
    toy.rig.launch();
    std::this_thread::sleep_for(100ms);
    reduce();
  } else {
    reduce();
    std::this_thread::sleep_for(100ms);
    toy.rig.launch();
  }
  const auto [code, text] = error_of([&] { toy.group.synchronize(); });
  EXPECT_EQ(code, ErrorCode::kTimeout);
  EXPECT_NE(text.find("rank 0 (compute, CTA 0) timed out"), std::string::npos) << text;
  EXPECT_NE(text.find("waiting for entry of rank 1"), std::string::npos) << text;
  expect_sums();
  toy.group.recover();
  toy.run_sound(2);
  MF_CUDA(cudaStreamDestroy(second));
  callers.destroy();
}

struct Case {
  void (*call)(const NcclWorker&) = nullptr;
  int32_t num_processes = kRanks;  // on a GPU each
};

const std::map<std::string, Case>& cases() {
  static const std::map<std::string, Case> all = {
      {"LaunchesAndRecovers", {launches_and_recovers}},
      {"TakesACommunicator", {takes_a_communicator}},
      {"GroupsEndInAnyOrder", {groups_end_in_any_order}},
      {"Disagree", {disagree}},
      {"OneNeverComes", {one_never_comes, 1}},
      {"OneNeverComesToACommunicator", {one_never_comes_to_a_communicator}},
      {"OneNeverLaunches", {one_never_launches}},
      {"OneIsKilled", {one_is_killed}},
      {"OneRankAlone", {one_rank_alone, 1}},
      {"MapsAllocations", {maps_allocations}},
      {"MapsAllOrNothing", {maps_all_or_nothing}},
      {"SharesTheDeviceWithNccl", {shares_the_device_with_nccl}},
  };
  return all;
}

// One rank of a case; NcclGroup.* start it.
TEST(NcclRank, DISABLED_Runs) {
  cases().at(test::this_case()).call(test::this_worker());
}

class NcclGroupTest : public ::testing::TestWithParam<std::string> {};

TEST_P(NcclGroupTest, InProcesses) {
  const int32_t num_processes = cases().at(GetParam()).num_processes;
  MF_NEEDS_GPUS(num_processes);
  const std::string obstacle = test::nccl_obstacle();
  if (!obstacle.empty()) GTEST_SKIP() << obstacle;
  const std::vector<int> statuses = test::run_processes("NcclRank.*", GetParam(), num_processes);
  for (int32_t rank = 0; rank < num_processes; ++rank) {
    const bool is_killed = GetParam() == "OneIsKilled" && rank == 1;
    EXPECT_EQ(statuses[rank], is_killed ? 128 + SIGKILL : 0) << "rank " << rank;
  }
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& [name, one] : cases()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(NcclGroup, NcclGroupTest, ::testing::ValuesIn(case_names()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace megaflux
