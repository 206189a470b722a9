// Bad arguments are named; a launch that waits for what never comes ends at its deadline, tells
// what it waited for, and the next one after recovery is right.
#include "layer_mega/forward_rig.cuh"

namespace megaflux {
namespace {

using test::case_of;
using test::ForwardRig;
using test::shape_of;

template <typename Fn>
std::string error_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(MegaForwardFaults, ArgumentsAreNamed) {
  MF_NEEDS_GPUS(1);
  const StepData data(case_of(shape_of(4, 2, 64, 64), 10), 1);
  ForwardRig rig(data);
  rig.route();
  ForwardInputs inputs = rig.inputs();
  const auto launch = [&] { rig.layer().launch_forward(inputs); };
  inputs.routing.num_tokens = 11;
  EXPECT_EQ(error_of(launch), "num_tokens: 11 is outside [0, 10]");
  inputs = rig.inputs();
  inputs.routing.topk = 3;
  EXPECT_EQ(error_of(launch), "topk: 3, the layer has 2");
  inputs = rig.inputs();
  inputs.y = nullptr;
  EXPECT_EQ(error_of(launch), "x, y, topk_ids or topk_weights is missing, and there are 10 tokens");
  inputs = rig.inputs();
  inputs.work = {};
  EXPECT_EQ(error_of(launch), "work: the list is missing");
}

TEST(MegaForwardFaults, AResultThatNeverComes) {
  MF_NEEDS_GPUS(1);
  const StepData data(case_of(shape_of(4, 2, 64, 64), 40), 2);
  ForwardRig rig(data, {.deadline_ms = gpu::by_size(1'000, 5'000, 1'000)});
  const std::vector<uint16_t> expected = rig.step();
  // Ids that the head has not seen.
  const std::vector<std::byte> ids = rig.ids().download();
  const std::vector<std::byte> none(ids.size(), std::byte{0xff});  // -1
  rig.ids().upload(std::span<const std::byte>(none));
  rig.route();
  rig.ids().upload(std::span<const std::byte>(ids));
  const std::string failure = error_of([&] { rig.forward(); });
  EXPECT_NE(failure.find("y_count"), std::string::npos) << failure;
  rig.layer().group().recover();
  EXPECT_EQ(rig.step(), expected);
}

TEST(MegaForwardFaults, RowsThatNeverCome) {
  MF_NEEDS_GPUS(1);
  const StepData data(case_of(shape_of(2, 1, 64, 64), 400), 3);
  ForwardRig rig(data, {.deadline_ms = gpu::by_size(1'000, 5'000, 1'000)});
  const std::vector<uint16_t> expected = rig.step();
  // A header of one tile less: nobody brings the last one.
  const auto header = rig.layer().head_fields().work;
  std::vector<WorkListHeader> shorter = rig.download(header);
  --shorter[0].num_tiles;
  rig.upload(header, std::span<const WorkListHeader>(shorter));
  const std::string failure = error_of([&] { rig.forward(); });
  EXPECT_NE(failure.find("waiting for"), std::string::npos) << failure;
  EXPECT_TRUE(failure.find("x_full") != std::string::npos ||
              failure.find("y_count") != std::string::npos)
      << failure;
  rig.layer().group().recover();
  EXPECT_EQ(rig.step(), expected);
}

}  // namespace
}  // namespace megaflux
