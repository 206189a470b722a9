#include <cuda_runtime.h>

#include "comm/toy_rig_cuda.h"
#include "megaflux/comm/entry_exit_device.cuh"
#include "megaflux/comm/launch_cuda.h"

namespace megaflux::test {
namespace {

__device__ uint32_t toy_word(int32_t rank, uint32_t epoch, int32_t i) {
  return static_cast<uint32_t>(mix64(uint64_t{epoch} * 4099 + rank * 131 + i));
}

__device__ EntryWords toy_words(const DeviceRank& self, const ToyParams& params, ToyFault fault) {
  EntryWords words = {.op = params.is_head ? LaunchOp::kHead : LaunchOp::kForward,
                      .layer = static_cast<int32_t>(self.epoch & 7u),
                      .plan_hash = 16,
                      .config_hash = 17};
  if (fault == ToyFault::kOtherOp) words.op = LaunchOp::kBackward;
  if (fault == ToyFault::kOtherLayer) words.layer = -4;
  if (fault == ToyFault::kOtherPlan) words.plan_hash = 0x123456789abcdefull;
  if (fault == ToyFault::kOtherConfig) words.config_hash = 0xfedcba9876543210ull;
  return words;
}

// CTA 0: the entry, with a payload from shared memory at an odd place.
__device__ EntryOutcome toy_enter(const DeviceRank& self, const ToyParams& params, ToyFault fault) {
  __shared__ uint32_t payload[kToyPayload + 1];
  for (int32_t i = threadIdx.x; i < kToyPayload; i += blockDim.x) {
    payload[1 + i] = toy_word(self.rank, self.epoch, i);
  }
  constexpr uint32_t kUnsupported = 1 + static_cast<uint32_t>(ErrorCode::kUnsupported);
  const EntryWords words = toy_words(self, params, fault);
  post_entry(self, words, payload + 1, kToyPayload, fault == ToyFault::kRefuses ? kUnsupported : 0);
  const EntryOutcome outcome = await_entries(self, words);
  if (threadIdx.x == 0) {
    ToyReport& report = *params.report;
    atomicAdd(outcome == EntryOutcome::kEntered   ? &report.num_entered
              : outcome == EntryOutcome::kRefused ? &report.num_refused
                                                  : &report.num_aborted,
              1u);
  }
  return outcome;
}

// Every CTA reads all payloads; the peers are shared out.
__device__ void toy_move(const DeviceRank& self, const ToyParams& params, ToyFault fault) {
  const HeapView& heap = self.group.heap;
  for (int32_t peer = 0; peer < self.num_ranks(); ++peer) {
    for (int32_t i = threadIdx.x; i < kToyPayload; i += blockDim.x) {
      const bool is_right = payload_of(self, peer)[i] == toy_word(peer, self.epoch, i);
      if (!is_right) atomicAdd(&params.report->bad_payload_words, 1u);
    }
  }
  if (params.is_head) return;
  for (int32_t peer = self.cta; peer < self.num_ranks(); peer += self.num_ctas) {
    const uint64_t* const rows = heap.at(peer, params.fields.rows);
    uint64_t* const results = heap.at(peer, params.fields.results) + self.rank * kToyRows;
    for (int32_t row = threadIdx.x; row < kToyRows; row += blockDim.x) {
      const uint64_t value = rows[row];
      if (value != toy_row(peer, self.epoch, row)) atomicAdd(&params.report->bad_rows, 1u);
      results[row] = ~value;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      uint32_t* const arrived = heap.at(peer, params.fields.arrived, self.epoch);
      const uint32_t lost = fault == ToyFault::kLosesASignal && peer == 0 ? 1 : 0;
      for (uint32_t i = lost; i < toy_adds(self.epoch); ++i) {
        if (i % 2 == 0) {
          count_signal<kPeerScope>(self, arrived, 1);
        } else {
          add_signal<kPeerScope>(self, arrived, 1);
        }
      }
    }
    // As weights are pulled: no add tells their owner of it, `pulled` alone does. Among delays it
    // takes longer now and then than the owner's next launch to begin.
    const bool is_late = self.group.fuzz_seed != 0 && (self.epoch + self.rank + self.cta) % 4 == 0;
    if (is_late) __nanosleep(30'000);
    const volatile uint64_t* const late_rows = rows;
    for (int32_t row = threadIdx.x; row < kToyRows; row += blockDim.x) {
      if (late_rows[row] != toy_row(peer, self.epoch, row)) {
        atomicAdd(&params.report->bad_rows, 1u);
      }
    }
  }
}

// CTA 0: all results of the peers.
__device__ void toy_collect(const DeviceRank& self, const ToyParams& params) {
  const HeapView& heap = self.group.heap;
  bool has_arrived = true;
  if (threadIdx.x == 0) {
    has_arrived =
        wait_for<kPeerScope>(self, {.tag = WaitTag::kYCount,
                                    .word = heap.at(self.rank, params.fields.arrived, self.epoch),
                                    .expected = toy_adds(self.epoch) * self.num_ranks()});
  }
  if (!__syncthreads_and(has_arrived)) return;
  const uint64_t* const results = heap.at(self.rank, params.fields.results);
  for (int32_t i = threadIdx.x; i < self.num_ranks() * kToyRows; i += blockDim.x) {
    const bool is_right = results[i] == ~toy_row(self.rank, self.epoch, i % kToyRows);
    if (!is_right) atomicAdd(&params.report->bad_results, 1u);
  }
}

__global__ void __launch_bounds__(256, 1)
    toy_kernel(const __grid_constant__ DeviceContext context, ToyParams params) {
  const DeviceRank self = begin_launch(context);
  const ToyFault fault = self.rank == params.faulty_rank ? params.fault : ToyFault::kNone;
  if (fault == ToyFault::kNeverArrives) return;
  if (self.cta == 0) {
    // Nobody reads these rows: the launch before has ended with every peer's pulled.
    for (int32_t row = threadIdx.x; row < kToyRows; row += blockDim.x) {
      context.heap.at(self.rank, params.fields.rows)[row] = toy_row(self.rank, self.epoch, row);
    }
  }
  const EntryOutcome outcome = self.cta == 0 ? toy_enter(self, params, fault) : join_entry(self);
  if (outcome == EntryOutcome::kEntered) {
    if (fault == ToyFault::kDiesInside) return;
    toy_move(self, params, fault);
    if (self.cta == 0 && !params.is_head) toy_collect(self, params);
  }
  if (params.is_head) {
    end_launch(self);
  } else {
    leave(self);
  }
}

}  // namespace

ToyRig::ToyRig(const DeviceGroup& group, const ToyFields& fields, int32_t ctas_per_rank,
               size_t shared_bytes)
    : group_(group), fields_(fields), ctas_per_rank_(ctas_per_rank), shared_bytes_(shared_bytes) {
  for (size_t i = 0; i < group.num_devices(); ++i) {
    reports_.emplace_back(1, group.device(i));
    const CurrentDevice current(group.device(i));
    MF_CUDA(cudaMemset(reports_.back().data(), 0, sizeof(ToyReport)));
    for (size_t k = 0; k < group.ranks_on(i).size(); ++k) poison(group.base(i, k));
    MF_CUDA(cudaDeviceSynchronize());
  }
}

void ToyRig::launch(ToyParams params, std::span<const cudaStream_t> streams) {
  size_t device_idx = 0;
  params.fields = fields_;
  group_.launch(
      [&](const DeviceContext& context, cudaStream_t stream) {
        params.report = reports_[device_idx++].data();
        launch_ranks(toy_kernel, {ctas_per_rank_, 128, shared_bytes_}, stream, context, params);
      },
      streams);
}

void ToyRig::launch_many(int64_t count) {
  for (int64_t i = 0; i < count; ++i) launch({.is_head = i % 5 >= 3});
}

ToyReport ToyRig::report() const {
  ToyReport sum = {};
  for (const auto& one : reports_) {
    const ToyReport here = one.download().front();
    sum.bad_payload_words += here.bad_payload_words;
    sum.bad_rows += here.bad_rows;
    sum.bad_results += here.bad_results;
    sum.num_entered += here.num_entered;
    sum.num_refused += here.num_refused;
    sum.num_aborted += here.num_aborted;
  }
  return sum;
}

void ToyRig::expect_right(int64_t num_entered) const {
  const ToyReport sum = report();
  EXPECT_EQ(sum.bad_payload_words, 0u);
  EXPECT_EQ(sum.bad_rows, 0u);
  EXPECT_EQ(sum.bad_results, 0u);
  EXPECT_EQ(sum.num_entered, num_entered);
}

void ToyRig::poison(std::byte* base) const {
  const auto fill = [&](size_t offset, size_t bytes) {
    MF_CUDA(cudaMemset(base + offset, 0xcd, bytes));
  };
  fill(fields_.rows.offset, fields_.rows.count * sizeof(uint64_t));
  fill(fields_.results.offset, fields_.results.count * sizeof(uint64_t));
  fill(group_.protocol().payload.offset, group_.protocol().payload.count * sizeof(uint32_t));
  fill(group_.protocol().entries.offset, group_.protocol().entries.count * sizeof(EntrySlot));
}

}  // namespace megaflux::test
