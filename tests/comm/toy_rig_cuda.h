// ToyRig: the toy launch of toy_launch.h as a kernel, over any group of devices: it pulls rows from
// all peers, pushes results to them, adds to a counter of each, waits for a sum that depends on the
// epoch, and the next one overwrites what they pulled. A mistake in entry, exit, banks or memory
// order shows as a wrong value, which is counted. One rank can be told to misbehave.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/toy_launch.h"
#include "gpu/gpu_test.cuh"
#include "megaflux/comm/device_group_cuda.h"

namespace megaflux::test {

inline constexpr int32_t kToyPayload = 37;  // words, no whole number of vectors

enum class ToyFault : int32_t {
  kNone,
  kNeverArrives,  // ends at once, without an entry
  kDiesInside,    // ends after its entry, without pulled
  kLosesASignal,  // adds once too little to rank 0's counter
  kRefuses,       // posts a refusal
  kOtherOp,       // enters with another op than the others; likewise the next three
  kOtherLayer,
  kOtherPlan,
  kOtherConfig,
};

// What went wrong, and how much was done.
struct ToyReport {
  uint32_t bad_payload_words;
  uint32_t bad_rows;
  uint32_t bad_results;
  uint32_t num_entered;  // launches that a rank entered
  uint32_t num_refused;
  uint32_t num_aborted;
};

struct ToyParams {
  ToyFields fields = {};
  ToyReport* report = nullptr;  // on the launch's device
  ToyFault fault = ToyFault::kNone;
  int32_t faulty_rank = -1;
  bool is_head = false;  // entry alone
};

// A group, its toy fields with poisoned contents, and a report a device.
class ToyRig {
 public:
  ToyRig(const DeviceGroup& group, const ToyFields& fields, int32_t ctas_per_rank = 2,
         size_t shared_bytes = 0);

  void launch(ToyParams params = {}, std::span<const cudaStream_t> streams = {});
  // `count` launches, work and heads in turn, without a synchronisation between them.
  void launch_many(int64_t count);
  // Sums over the devices of this process; the group must be idle.
  ToyReport report() const;
  // Nothing was wrong, and `num_entered` launches were entered, summed over ranks.
  void expect_right(int64_t num_entered) const;

 private:
  void poison(std::byte* base) const;

  const DeviceGroup& group_;
  ToyFields fields_;
  int32_t ctas_per_rank_;
  size_t shared_bytes_;                               // a CTA, to leave no room for others
  std::vector<gpu::DeviceArray<ToyReport>> reports_;  // [devices]
};

// The Error that call() throws; a failure of the test if it throws none.
template <typename Call>
std::pair<ErrorCode, std::string> error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace megaflux::test
