// LocalGroup on real devices: entry and exit over virtual ranks and over two GPUs.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/toy_rig_cuda.h"
#include "megaflux/comm/local_group_cuda.h"

namespace megaflux {
namespace {

using namespace std::chrono_literals;
using test::add_toy_fields;
using test::kToyPayload;
using test::ToyFields;
using test::ToyRig;

// The soak has suites of its own.
int quick_or_sanitize(int quick, int sanitize) {
  return gpu::by_size(quick, sanitize, quick);
}

// Which device hosts which rank: a name and the table.
struct Place {
  const char* name;
  std::vector<int32_t> device_of;
};

const Place kPlaces[] = {{"P1", {0}},
                         {"P2_on_one", {0, 0}},
                         {"P3_on_one", {0, 0, 0}},
                         {"P8_on_one", {0, 0, 0, 0, 0, 0, 0, 0}},
                         {"P2_on_two", {0, 1}},
                         {"P5_interleaved", {1, 0, 0, 1, 0}},
                         {"P8_on_two", {0, 0, 0, 0, 1, 1, 1, 1}}};

// GPUs that it takes.
int num_gpus_of(const Place& place) {
  return 1 + *std::max_element(place.device_of.begin(), place.device_of.end());
}

// Those that this machine has the GPUs for.
std::vector<Place> places() {
  std::vector<Place> all;
  std::copy_if(std::begin(kPlaces), std::end(kPlaces), std::back_inserter(all),
               [](const Place& place) { return num_gpus_of(place) <= gpu::num_gpus(); });
  return all;
}

struct Toy {
  explicit Toy(const std::vector<int32_t>& device_of, uint32_t start_epoch = 0xfffffff0u,
               int32_t ctas_per_rank = 2)
      : fields(add_toy_fields(layout, static_cast<int32_t>(device_of.size()))),
        group({.device_of = device_of,
               .payload_words = kToyPayload,
               .start_epoch = start_epoch,
               .waits = {.deadline = 2s}},
              layout),
        rig(group, fields, ctas_per_rank) {}
  int32_t num_ranks() const { return group.num_ranks(); }

  Layout layout;
  ToyFields fields;
  LocalGroup group;
  ToyRig rig;
};

// `count` launches on each place, without a host synchronisation between them.
void launch_everywhere(int64_t count) {
  for (const Place& place : places()) {
    SCOPED_TRACE(place.name);
    Toy toy(place.device_of);
    toy.rig.launch_many(count);
    toy.group.synchronize();
    toy.rig.expect_right(count * toy.num_ranks());
  }
}

// The same on two ranks, on two devices if there are two.
void launch_two_ranks(int64_t count) {
  Toy toy(gpu::num_gpus() >= 2 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{0, 0}, 0, 1);
  toy.rig.launch_many(count);
  toy.group.synchronize();
  toy.rig.expect_right(count * 2);
}

// `count` launches with each of the seeds 1 ... num_seeds, on each place.
void delay_everywhere(int num_seeds, int64_t count) {
  for (const Place& place : places()) {
    SCOPED_TRACE(place.name);
    Toy toy(place.device_of, 0xffffffe0u);
    for (int seed = 1; seed <= num_seeds; ++seed) {
      toy.group.set_delay_fuzz(seed);
      toy.rig.launch_many(count);
    }
    toy.group.synchronize();
    toy.rig.expect_right(num_seeds * count * toy.num_ranks());
  }
}

TEST(LocalGroup, LaunchesWithoutHostSync) {
  launch_everywhere(quick_or_sanitize(500, 12));
}

TEST(LocalGroup, AHundredThousandLaunchesWithoutHostSync) {
  launch_two_ranks(quick_or_sanitize(100'000, 50));
}

TEST(LocalGroup, DelaysAtEverySignal) {
  delay_everywhere(quick_or_sanitize(6, 1), quick_or_sanitize(60, 6));
}

class LocalGroupSoak : public ::testing::TestWithParam<Place> {};

TEST_P(LocalGroupSoak, AHundredThousandLaunchesWithoutHostSync) {
  MF_NEEDS_GPUS(num_gpus_of(GetParam()));
  Toy toy(GetParam().device_of);
  toy.rig.launch_many(100'000);
  toy.group.synchronize();
  toy.rig.expect_right(100'000 * toy.num_ranks());
}

INSTANTIATE_TEST_SUITE_P(Places, LocalGroupSoak, ::testing::ValuesIn(kPlaces),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(LocalGroupLongSoak, TwoMillionLaunchesWithoutHostSync) {
  launch_two_ranks(2'000'000);
}

TEST(LocalGroupLongSoak, DelaysAtEverySignal) {
  delay_everywhere(100, 200);
}

TEST(LocalGroup, ManyCtasOfARank) {
  Toy toy({0, 0, 0, 0}, 0xfffffffeu, 33);
  const int count = quick_or_sanitize(200, 6);
  toy.rig.launch_many(count);
  toy.group.synchronize();
  toy.rig.expect_right(count * 4);
}

TEST(LocalGroup, EpochsWrap) {
  for (const uint32_t start : {0xffffffffu, 0x7ffffff8u, 0x80000000u, 0u}) {
    Toy toy({0, 0, 0}, start);
    for (const std::optional<uint64_t> delays : {std::optional<uint64_t>(), {start + 1}}) {
      toy.group.set_delay_fuzz(delays);
      toy.rig.launch_many(20);
    }
    toy.group.synchronize();
    toy.rig.expect_right(40 * 3);
  }
}

// The words of rank `rank`, an epoch each.
std::vector<uint32_t> words_of(const LocalGroup& group, int32_t rank, Field<uint32_t> field) {
  std::vector<uint32_t> words(field.count);
  MF_CUDA(cudaMemcpy(words.data(), group.heap().at(rank, field), words.size() * sizeof(uint32_t),
                     cudaMemcpyDefault));
  return words;
}

// A word that no launch wrote for 2^31 of them would seem to lie ahead: heads have no exit, and a
// single CTA of a rank lets no other go on.
TEST(LocalGroup, NoWordIsLeftOver) {
  for (const uint32_t start : {0xfff0u, 0xfffffff0u, 0x7ffffff0u}) {
    Toy toy({0, 0, 0}, start, 1);
    toy.rig.launch();
    for (int i = 0; i < 20; ++i) toy.rig.launch({.is_head = true});
    toy.group.synchronize();
    const ProtocolFields& protocol = toy.group.protocol();
    for (int32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(words_of(toy.group, rank, protocol.pulled), std::vector<uint32_t>(3, start + 16));
      EXPECT_EQ(words_of(toy.group, rank, protocol.entered), std::vector<uint32_t>{start + 16});
    }
    toy.rig.launch_many(20);
    toy.group.synchronize();
    toy.rig.expect_right(41 * 3);
  }
}

// A graph a device: each replay takes its epochs from device memory, eager launches between them.
TEST(LocalGroup, CapturedLaunchesReplay) {
  for (const Place& place : places()) {
    SCOPED_TRACE(place.name);
    Toy toy(place.device_of);
    const size_t num_devices = toy.group.num_devices();
    for (size_t i = 0; i < num_devices; ++i) {
      const CurrentDevice current(toy.group.device(i));
      MF_CUDA(cudaStreamBeginCapture(toy.group.stream(i), cudaStreamCaptureModeRelaxed));
    }
    toy.rig.launch_many(5);
    std::vector<cudaGraphExec_t> graphs(num_devices);
    for (size_t i = 0; i < num_devices; ++i) {
      const CurrentDevice current(toy.group.device(i));
      cudaGraph_t graph = nullptr;
      MF_CUDA(cudaStreamEndCapture(toy.group.stream(i), &graph));
      MF_CUDA(cudaGraphInstantiate(&graphs[i], graph));
      MF_CUDA(cudaGraphDestroy(graph));
    }
    const int num_replays = quick_or_sanitize(50, 2);
    for (int replay = 0; replay < num_replays; ++replay) {
      for (size_t i = 0; i < num_devices; ++i) {
        const CurrentDevice current(toy.group.device(i));
        MF_CUDA(cudaGraphLaunch(graphs[i], toy.group.stream(i)));
      }
      if (replay % 3 == 0) toy.rig.launch_many(1);
    }
    toy.group.synchronize();
    toy.rig.expect_right((5 * num_replays + ceil_div(num_replays, 3)) * toy.num_ranks());
    for (const cudaGraphExec_t graph : graphs) MF_CUDA(cudaGraphExecDestroy(graph));
  }
}

TEST(LocalGroup, SeveralGroupsAtOnceEndInAnyOrder) {
  const std::vector<int32_t> device_of =
      gpu::num_gpus() >= 2 ? std::vector<int32_t>{0, 1, 0} : std::vector<int32_t>{0, 0, 0};
  for (const std::vector<int>& order : {std::vector{0, 1, 2}, {2, 1, 0}, {1, 0, 2}}) {
    std::vector<std::unique_ptr<Toy>> toys;
    for (uint32_t i = 0; i < 3; ++i) {
      toys.push_back(std::make_unique<Toy>(device_of, 1000 * i));
    }
    for (int step = 0; step < 30; ++step) {
      for (const auto& toy : toys) toy->rig.launch_many(1);
    }
    for (size_t i = 0; i < toys.size(); ++i) {
      const int chosen = order[i];
      // The first goes while its launches run.
      if (i > 0) {
        toys[chosen]->group.synchronize();
        toys[chosen]->rig.expect_right(30 * 3);
      }
      toys[chosen].reset();
    }
  }
}

TEST(LocalGroup, KeepsTheCurrentDevice) {
  MF_NEEDS_GPUS(2);
  const auto device = [] {
    int ordinal = -1;
    MF_CUDA(cudaGetDevice(&ordinal));
    return ordinal;
  };
  MF_CUDA(cudaSetDevice(1));
  {
    LocalGroup group({.device_of = {0, 0}}, Layout());
    EXPECT_EQ(device(), 1);
    group.launch([&](const DeviceContext&, cudaStream_t) { EXPECT_EQ(device(), 0); });
    EXPECT_EQ(device(), 1);
    group.synchronize();
    group.recover();
    EXPECT_EQ(device(), 1);
  }
  EXPECT_EQ(device(), 1);
  MF_CUDA(cudaSetDevice(0));
}

TEST(LocalGroup, RefusesBadConfigurations) {
  const auto error = [](const LocalConfig& config) {
    return test::error_of([&] { LocalGroup(config, Layout()); });
  };
  EXPECT_EQ(error({.device_of = {0, 99}}).second, "device_of[1]: 99 is outside [0, " +
                                                      std::to_string(gpu::num_gpus()) +
                                                      "), the CUDA devices of this process");
  EXPECT_EQ(error({.device_of = {}}).second,
            "num_ranks: 0 is outside [1, 128], the ranks of a group of devices");
  EXPECT_EQ(error({.device_of = std::vector<int32_t>(129, 0)}).second,
            "num_ranks: 129 is outside [1, 128], the ranks of a group of devices");
  EXPECT_EQ(error({.device_of = {0}, .payload_words = -1}).second, "payload_words: -1 is negative");
}

TEST(LocalGroup, AnotherNumberOfStreamsIsRefused) {
  Toy toy({0, 0});
  const cudaStream_t one = toy.group.stream(0);
  const std::vector<cudaStream_t> two = {one, one};
  const auto [code, text] = test::error_of([&] { toy.rig.launch({}, two); });
  EXPECT_EQ(code, ErrorCode::kBadInput);
  EXPECT_EQ(text, "streams: 2 given, the group has 1 devices in this process");
  toy.rig.launch({}, {&one, 1});
  toy.group.synchronize();
  toy.rig.expect_right(2);
}

TEST(LocalGroup, MoreCtasThanFitAreRefused) {
  Toy toy({0, 0}, 0, 10'000);
  const auto [code, text] = test::error_of([&] { toy.rig.launch(); });
  EXPECT_EQ(code, ErrorCode::kInternal);
  EXPECT_NE(text.find("cudaErrorCooperativeLaunchTooLarge"), std::string::npos) << text;
}

}  // namespace
}  // namespace megaflux
