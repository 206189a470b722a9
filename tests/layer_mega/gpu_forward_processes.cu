// The forward with its ranks in processes of their own: the bits of ranks that share one.
#include "comm/nccl_worker_cuda.h"
#include "layer_mega/forward_rig.cuh"

namespace megaflux::test {
namespace {

LayerCase two_rank_case() {
  return {.name = "",
          .shape = shape_of(7, 3, 192, 192),
          .tokens = {500, 330},
          .route = RouteKind::kSkewed,
          .replica_slots = 2};
}

void repeats_the_bits(const NcclWorker& worker) {
  const StepData data(two_rank_case(), 21);
  // Both ranks on this process's device.
  const Outputs expected = ForwardRig(data, {.first_device = worker.rank}).step();
  int index = 0;
  for (const PlannerKind planner : {PlannerKind::kFixed, PlannerKind::kMegaflux}) {
    for (const int64_t pool_rows : {0, 384}) {
      const NcclConfig process = worker.config(index++);
      ForwardRig rig(data, {.planner = planner, .pool_rows = pool_rows, .process = &process});
      for (int repeat = 0; repeat < 20; ++repeat) {
        rig.session().group().set_delay_fuzz(1 + 2 * repeat + worker.rank);
        ASSERT_EQ(rig.step()[0], expected[worker.rank])
            << planner_name(planner) << ", C " << pool_rows << ", repeat " << repeat;
      }
    }
  }
}

// A rank that makes no launch: the other one's ends at its deadline, and recovery is collective.
void one_never_launches(const NcclWorker& worker) {
  const StepData data(two_rank_case(), 22);
  const NcclConfig process = worker.config();
  ForwardRig rig(data, {.process = &process, .deadline_ms = 500});
  const Outputs expected = rig.step();
  worker.meet("stepped");
  if (worker.rank == 0) {
    try {
      rig.forward();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kTimeout) << error.what();
    }
  }
  worker.meet("waited");
  rig.session().group().recover();
  EXPECT_EQ(rig.step(), expected);
}

TEST(ForwardRank, DISABLED_RepeatsTheBits) {
  repeats_the_bits(this_worker());
}
TEST(ForwardRank, DISABLED_OneNeverLaunches) {
  one_never_launches(this_worker());
}

void expect_processes_pass(const std::string& name) {
  const std::string obstacle = nccl_obstacle();
  if (!obstacle.empty()) GTEST_SKIP() << obstacle;
  EXPECT_EQ(run_processes("ForwardRank.DISABLED_" + name, name, kRanks), (std::vector<int>{0, 0}));
}

TEST(MegaForwardProcesses, RepeatsTheBits) {
  MF_NEEDS_GPUS(2);
  expect_processes_pass("RepeatsTheBits");
}
TEST(MegaForwardProcesses, OneNeverLaunches) {
  MF_NEEDS_GPUS(2);
  expect_processes_pass("OneNeverLaunches");
}

}  // namespace
}  // namespace megaflux::test
