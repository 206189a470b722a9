#include "megaflux/plan/cost_model.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/plan/cost_rules.h"

namespace megaflux {
namespace {

constexpr uint64_t kMaxNs = std::numeric_limits<uint64_t>::max();

// H = 16, I = 8: 3 H I = 384 parameters, 768 bytes in bf16, 768 multiply-adds times two a row.
LayerShape small_shape() {
  return {.num_experts = 8, .topk = 2, .hidden = 16, .inter = 8};
}

// A model whose every term is a round number: 1 us a block, 4 us a copy, 2 us a gradient.
CostModel round_model() {
  return {.block_ps = 1'000'000,
          .weight_bytes = 400,
          .gradient_bytes = 200,
          .link_bytes_per_us = 100,
          .plan_ns = 70,
          .pre_gate_ns = 7,
          .copy_latency_ns = 300,
          .round_ns = 50,
          .pool_blocks = 4};
}

std::string error_of(auto&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.what();
  }
  return "no error";
}

TEST(CostModel, ForwardIntegersByHand) {
  const MachineModel machine{.gflops = 1000,
                             .link_mb_per_s = 500,
                             .plan_ns = 11,
                             .pre_gate_ns = 3,
                             .copy_latency_ns = 13,
                             .round_ns = 17};
  const CostModel model =
      make_cost_model(machine, small_shape(), 10, CostScope::kForward, 10 * 5 + 9);
  // 10 rows x 768 flops = 7680 flops at 1000 flops a nanosecond = 7.68 ns.
  EXPECT_EQ(model.block_ps, 7680u);
  EXPECT_EQ(model.weight_bytes, 768u);
  EXPECT_EQ(model.gradient_bytes, 0u);
  EXPECT_EQ(model.link_bytes_per_us, 500u);
  EXPECT_EQ(model.plan_ns, 11u);
  EXPECT_EQ(model.pre_gate_ns, 3u);
  EXPECT_EQ(model.copy_latency_ns, 13u);
  EXPECT_EQ(model.round_ns, 17u);
  EXPECT_EQ(model.pool_blocks, 5);
}

TEST(CostModel, BackwardTriplesComputeAndPullsWeightsTwice) {
  const MachineModel machine{.gflops = 1000,
                             .link_mb_per_s = 500,
                             .plan_ns = 11,
                             .pre_gate_ns = 3,
                             .copy_latency_ns = 13,
                             .round_ns = 17};
  const CostModel model = make_cost_model(machine, small_shape(), 10, CostScope::kForwardBackward);
  EXPECT_EQ(model.block_ps, 3 * 7680u);
  EXPECT_EQ(model.weight_bytes, 2 * 768u);
  EXPECT_EQ(model.gradient_bytes, 4 * 384u);
  EXPECT_EQ(model.copy_latency_ns, 26u);
  EXPECT_EQ(model.round_ns, 34u);
  EXPECT_EQ(model.plan_ns, 11u) << "one plan serves both passes";
  EXPECT_EQ(model.pool_blocks, 0);
}

TEST(CostModel, RoundsComputeUp) {
  const MachineModel machine{.gflops = 999'999};
  EXPECT_EQ(make_cost_model(machine, small_shape(), 1, CostScope::kForward).block_ps, 1u);
}

TEST(CostModel, IdleRankCostsNothing) {
  EXPECT_EQ(rank_ns(round_model(), {}), 0u);
}

TEST(CostModel, ComputeOnly) {
  EXPECT_EQ(rank_ns(round_model(), {.finish_blocks = 3, .owned_blocks = 3, .load_blocks = 3}),
            3'000u);
}

TEST(CostModel, IncomingWeightsHideBehindOwnedBlocks) {
  RankCost rank{.finish_blocks = 4, .owned_blocks = 3, .load_blocks = 4, .copies_in = 1};
  // 4000 ns on the link + 300 ns latency against 3000 ns of owned blocks.
  EXPECT_EQ(rank_ns(round_model(), rank), 4'000u + 1'300u);
  rank = {.finish_blocks = 6, .owned_blocks = 5, .load_blocks = 4, .copies_in = 1};
  EXPECT_EQ(rank_ns(round_model(), rank), 6'000u) << "hidden";
  rank = {.finish_blocks = 1, .owned_blocks = 0, .load_blocks = 1, .copies_in = 2};
  EXPECT_EQ(rank_ns(round_model(), rank), 1'000u + 8'300u) << "nothing to hide behind";
}

TEST(CostModel, ServingCopiesBoundsTheOwner) {
  const RankCost served_fast{
      .finish_blocks = 9, .owned_blocks = 9, .load_blocks = 4, .copies_out = 2};
  EXPECT_EQ(rank_ns(round_model(), served_fast), 9'000u);
  const RankCost hot_owner{
      .finish_blocks = 9, .owned_blocks = 9, .load_blocks = 4, .copies_out = 3};
  EXPECT_EQ(rank_ns(round_model(), hot_owner), 12'300u);
}

TEST(CostModel, AnOwnerSendsAtARateOfItsOwn) {
  const RankCost hot_owner{
      .finish_blocks = 9, .owned_blocks = 9, .load_blocks = 4, .copies_out = 3};
  const RankCost host{.finish_blocks = 1, .load_blocks = 1, .copies_in = 1, .replicas_in = 1};
  CostModel model = round_model();
  model.send_bytes_per_us = 50;
  EXPECT_EQ(rank_ns(model, hot_owner), 24'300u) << "8 us a copy";
  EXPECT_EQ(rank_ns(model, host), 1'000u + 4'300u) << "4 us of gradients hide behind the rest";
  model.send_bytes_per_us = 700;
  EXPECT_EQ(rank_ns(model, hot_owner), 9'000u);
  EXPECT_EQ(rank_ns(model, host), 1'000u + 4'300u);
  const MachineModel machine{.link_mb_per_s = 500, .send_mb_per_s = 900};
  EXPECT_EQ(make_cost_model(machine, small_shape(), 10, CostScope::kForward).send_bytes_per_us,
            900u);
}

TEST(CostModel, GradientsComeInAtTheOwnerAndGoOutAtTheHost) {
  const RankCost owner{.finish_blocks = 4, .owned_blocks = 4, .load_blocks = 4, .replicas_out = 3};
  EXPECT_EQ(rank_ns(round_model(), owner), 4'000u + 2'000u);
  const RankCost host{.finish_blocks = 2, .owned_blocks = 0, .load_blocks = 2, .replicas_in = 3};
  EXPECT_EQ(rank_ns(round_model(), host), 6'000u);
  CostModel forward = round_model();
  forward.gradient_bytes = 0;
  EXPECT_EQ(rank_ns(forward, owner), 4'000u);
  EXPECT_EQ(rank_ns(forward, host), 2'000u);
}

TEST(CostModel, RoundsBeyondTheFirst) {
  for (const auto& [load, rounds] :
       std::vector<std::pair<int64_t, uint64_t>>{{0, 0}, {1, 0}, {4, 0}, {5, 1}, {8, 1}, {9, 2}}) {
    EXPECT_EQ(rank_ns(round_model(), {.load_blocks = load}), rounds * 50) << load;
  }
  CostModel unlimited = round_model();
  unlimited.pool_blocks = 0;
  EXPECT_EQ(rank_ns(unlimited, {.load_blocks = 1'000'000}), 0u);
}

TEST(CostModel, LayerIsTheSlowestRankAndThePlan) {
  const std::array ranks{RankCost{.finish_blocks = 2}, RankCost{.finish_blocks = 5},
                         RankCost{.finish_blocks = 1}};
  EXPECT_EQ(layer_ns(round_model(), ranks), 5'070u);
  EXPECT_EQ(layer_ns(round_model(), {}), 70u);
}

TEST(CostModel, LargestLayerOnSlowestMachineDoesNotOverflow) {
  const LayerShape shape{.num_experts = 4096,
                         .topk = 64,
                         .hidden = 65536,
                         .inter = 65536,
                         .dtype = DType::kFp32,
                         .has_bias = true};
  const MachineModel machine{.gflops = 10, .link_mb_per_s = 1, .plan_ns = 1'000'000'000};
  const CostModel model =
      make_cost_model(machine, shape, 1 << 20, CostScope::kForwardBackward, 1 << 20);
  // 3 passes x 2^20 rows x 6 x 2^32 flops at 10 flops a nanosecond, in picoseconds.
  EXPECT_EQ(model.block_ps, 3ull * 6 * (1ull << 52) * 100);
  // One copy and nothing else: 2 x (12 x 2^32 + biases) bytes at one byte a microsecond.
  const uint64_t bytes = 2 * (12ull * (1ull << 32) + 4 * 3 * 65536ull);
  EXPECT_EQ(rank_ns(model, {.copies_in = 1}), bytes * 1000 + 6'000);
  const RankCost worst{.finish_blocks = std::numeric_limits<int64_t>::max(),
                       .load_blocks = std::numeric_limits<int64_t>::max(),
                       .copies_in = std::numeric_limits<int32_t>::max(),
                       .copies_out = std::numeric_limits<int32_t>::max(),
                       .replicas_out = std::numeric_limits<int32_t>::max(),
                       .replicas_in = std::numeric_limits<int32_t>::max()};
  EXPECT_EQ(rank_ns(model, worst), kMaxNs) << "saturates";
  EXPECT_EQ(layer_ns(model, std::array{worst}), kMaxNs);
}

RankCost any_rank() {
  return {.finish_blocks = *rc::gen::inRange<int64_t>(0, 1 << 20),
          .owned_blocks = *rc::gen::inRange<int64_t>(0, 1 << 20),
          .load_blocks = *rc::gen::inRange<int64_t>(0, 1 << 20),
          .copies_in = *rc::gen::inRange(0, 64),
          .copies_out = *rc::gen::inRange(0, 512),
          .replicas_out = *rc::gen::inRange(0, 512),
          .replicas_in = *rc::gen::inRange(0, 64)};
}

CostModel any_model() {
  const MachineModel machine{.gflops = *rc::gen::inRange<int64_t>(10, 2'000'000),
                             .link_mb_per_s = *rc::gen::inRange<int64_t>(1, 1'000'000),
                             .send_mb_per_s = *rc::gen::inRange<int64_t>(0, 1'000'000),
                             .plan_ns = *rc::gen::inRange<int64_t>(0, 100'000),
                             .copy_latency_ns = *rc::gen::inRange<int64_t>(0, 100'000),
                             .round_ns = *rc::gen::inRange<int64_t>(0, 100'000)};
  const LayerShape shape{.num_experts = 8,
                         .topk = 2,
                         .hidden = *rc::gen::inRange(1, 8192),
                         .inter = *rc::gen::inRange(1, 8192)};
  const auto scope = *rc::gen::element(CostScope::kForward, CostScope::kForwardBackward);
  const int64_t pool_rows = *rc::gen::element(0, 128, 1280, 128000);
  return make_cost_model(machine, shape, 128, scope, pool_rows);
}

RC_GTEST_PROP(CostModelProperty, GrowsWithEveryDemandAndFallsWithCover, ()) {
  const CostModel model = any_model();
  const RankCost rank = any_rank();
  const uint64_t before = rank_ns(model, rank);
  for (const auto member : {&RankCost::finish_blocks, &RankCost::load_blocks}) {
    RankCost more = rank;
    more.*member += *rc::gen::inRange(1, 1000);
    RC_ASSERT(rank_ns(model, more) >= before);
  }
  for (const auto member : {&RankCost::copies_in, &RankCost::copies_out, &RankCost::replicas_out,
                            &RankCost::replicas_in}) {
    RankCost more = rank;
    more.*member += *rc::gen::inRange(1, 10);
    RC_ASSERT(rank_ns(model, more) >= before);
  }
  RankCost covered = rank;
  covered.owned_blocks += *rc::gen::inRange(1, 1000);
  RC_ASSERT(rank_ns(model, covered) <= before);
}

RC_GTEST_PROP(CostModelProperty, NeverBelowComputeAndStrictlyGrowsWithBlocks, ()) {
  const CostModel model = any_model();
  RankCost rank = any_rank();
  const uint64_t compute = rank_ns(model, {.finish_blocks = rank.finish_blocks});
  RC_ASSERT(rank_ns(model, rank) >= compute);
  const RankCost alone{.finish_blocks = rank.finish_blocks + 1000};
  RC_ASSERT(rank_ns(model, alone) > compute);
}

RC_GTEST_PROP(CostModelProperty, SixtyFourBitsSayTheSameWhereTheyHoldAll, ()) {
  CostModel model = any_model();
  constexpr int64_t kBlocks = (1 << 20) + 1000;
  if (*rc::gen::inRange(0, 4) == 0) model.block_ps <<= *rc::gen::inRange(0, 30);
  if (*rc::gen::inRange(0, 4) == 0) model.weight_bytes <<= *rc::gen::inRange(0, 20);
  if (*rc::gen::inRange(0, 4) == 0) model.round_ns <<= *rc::gen::inRange(0, 30);
  const CostTimes times = cost_times(model);
  RC_PRE(fits_in_64_bits(times, kBlocks, 1024));
  const RankCost rank = any_rank();
  RC_ASSERT(rank_time_ns<uint64_t>(times, rank) == rank_time_ns(times, rank));
  const uint64_t best = *rc::gen::inRange<uint64_t>(0, 1 << 30);
  RC_ASSERT(another_wave_may_pay<uint64_t>(times, best, rank.finish_blocks) ==
            another_wave_may_pay(times, best, rank.finish_blocks));
  const PreGateFacts facts = {.gain_blocks = *rc::gen::inRange<int64_t>(0, kBlocks),
                              .cover_blocks = rank.owned_blocks,
                              .most_blocks = *rc::gen::inRange<int64_t>(1000, kBlocks),
                              .least_blocks = *rc::gen::inRange<int64_t>(0, 1000),
                              .copy_is_free = *rc::gen::arbitrary<bool>()};
  RC_ASSERT(pre_gate_refuses<uint64_t>(times, facts) == pre_gate_refuses(times, facts));
}

TEST(CostModel, SixtyFourBitsHoldWhatALayerTakesButNotEverything) {
  const auto fits = [](uint64_t CostTimes::*member, uint64_t value) {
    CostTimes times = cost_times(round_model());
    times.*member = value;
    return fits_in_64_bits(times, 1 << 20, 1 << 10);
  };
  // Blocks, replicas, and what a layer takes once.
  const std::vector<std::pair<uint64_t CostTimes::*, int>> limits = {
      {&CostTimes::block_ps, 40},       {&CostTimes::round_ps, 40},
      {&CostTimes::copy_in_ps, 49},     {&CostTimes::copy_out_ps, 49},
      {&CostTimes::gradient_in_ps, 49}, {&CostTimes::gradient_out_ps, 49},
      {&CostTimes::latency_ps, 59},     {&CostTimes::plan_ns, 49},
      {&CostTimes::pre_gate_ns, 49}};
  for (const auto& [member, bits] : limits) {
    EXPECT_TRUE(fits(member, uint64_t{1} << bits)) << bits;
    EXPECT_FALSE(fits(member, uint64_t{1} << (bits + 2))) << bits;
    EXPECT_FALSE(fits(member, kMaxNs));
  }
  CostTimes long_copies = cost_times(round_model());
  long_copies.copy_in_ps = uint64_t{1} << 62;
  EXPECT_FALSE(fits_in_64_bits(long_copies, 1 << 20, 0)) << "the pre-gate asks what a copy costs";
}

TEST(CostModel, TimesAreRoundedUpAndSaturate) {
  const CostTimes times = cost_times({.block_ps = 5,
                                      .weight_bytes = 7,
                                      .gradient_bytes = kMaxNs,
                                      .link_bytes_per_us = 3,
                                      .send_bytes_per_us = 6});
  EXPECT_EQ(times.copy_in_ps, 2'333'334u);
  EXPECT_EQ(times.copy_out_ps, 1'166'667u);
  EXPECT_EQ(times.gradient_in_ps, kMaxNs);
}

TEST(CostModelInput, NamesFieldValueAndLimit) {
  EXPECT_EQ(machine_model("h200").gflops, 700'000);
  EXPECT_EQ(error_of([] { machine_model("tpu"); }),
            "machine: 'tpu' is not known; known machines: h200");
  EXPECT_EQ(error_of([] { check_machine({.gflops = 9}); }),
            "machine: gflops: 9 is outside [10, 1000000000]");
  EXPECT_EQ(error_of([] { check_machine({.link_mb_per_s = 0}); }),
            "machine: link_mb_per_s: 0 is outside [1, 1000000000]");
  EXPECT_EQ(error_of([] { check_machine({.send_mb_per_s = -1}); }),
            "machine: send_mb_per_s: -1 is outside [0, 1000000000]");
  EXPECT_EQ(error_of([] { check_machine({.plan_ns = -1}); }),
            "machine: plan_ns: -1 is outside [0, 1000000000]");
  EXPECT_EQ(error_of([] { check_machine({.pre_gate_ns = -1}); }),
            "machine: pre_gate_ns: -1 is outside [0, 1000000000]");
  EXPECT_EQ(error_of([] { check_machine({.copy_latency_ns = 2'000'000'000}); }),
            "machine: copy_latency_ns: 2000000000 is outside [0, 1000000000]");
  EXPECT_EQ(error_of([] { check_machine({.round_ns = -5}); }),
            "machine: round_ns: -5 is outside [0, 1000000000]");
  EXPECT_EQ(error_of([] { make_cost_model({}, small_shape(), 0, CostScope::kForward); }),
            "block_rows: 0 is outside [1, 1048576]");
  EXPECT_EQ(error_of([] { make_cost_model({}, small_shape(), 128, CostScope::kForward, 127); }),
            "pool_rows: 127 holds no block of 128 rows");
  EXPECT_EQ(error_of([] { make_cost_model({}, {}, 128, CostScope::kForward); }),
            "num_experts: 0 is outside [1, 4096]");
}

}  // namespace
}  // namespace megaflux
