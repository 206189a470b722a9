// What launches that fill replica slots share: which slots of a rank are to be filled, and where a
// piece of weights comes from and goes to.
#pragma once

#include "megaflux/base/check.h"
#include "megaflux/comm/signal_device.cuh"
#include "megaflux/layer/planned_fields.h"
#include "megaflux/layer/weight_cut.h"
#include "megaflux/moe/limits.h"

namespace megaflux {

// The replica slots of a rank, shared by all layers of its session.
struct SlotPool {
  std::byte* w1 = nullptr;  // [s, 2I, H]
  std::byte* w2 = nullptr;  // [s, H, I]
  float* b1 = nullptr;      // [s, 2I] or null
  float* b2 = nullptr;      // [s, H] or null
};

__device__ __forceinline__ const PlanHeader& plan_header(const DeviceRank& self,
                                                         const PlannedFields& planned) {
  return *reinterpret_cast<const PlanHeader*>(self.own(planned.plan));
}

// Of an entry: without a plan (the head found none, or did not enter) the rank refuses.
inline constexpr uint32_t kPlanRefusal = 1 + static_cast<uint32_t>(ErrorCode::kBadInput);
__device__ __forceinline__ uint32_t plan_refusal(const PlanHeader& plan) {
  return plan.magic == PlanHeader{}.magic ? 0 : kPlanRefusal;
}

// One of the rank's replicas that have rows.
struct LaneReplica {
  Part part;
  int32_t slot = -1;        // -1 = none
  bool is_missing = false;  // its weights are not resident
};

// One warp: replicas are the last parts of a list, at most one a slot; lane l gets the l-th from
// the end.
__device__ inline LaneReplica find_replica(const DeviceRank& self, const PlannedFields& planned) {
  const WorkListHeader& header = *self.own(planned.work);
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
  const int32_t place = header.num_parts - 1 - lane;
  LaneReplica replica;
  if (lane >= kMaxDeviceSlots || place < 0) return replica;
  replica.part = self.own(planned.parts)[place];
  if (!replica.part.is_replica) return replica;
  replica.slot = replica.part.weight_slot - header.num_owned;
  const auto* const resident =
      reinterpret_cast<const uint8_t*>(self.own(planned.plan) + planned.slot_resident);
  replica.is_missing = resident[self.rank * planned.replica_slots + replica.slot] == 0;
  return replica;
}

// A piece of the weights of one expert on its way to a slot, with the biases of its rows.
struct PieceCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  uint32_t bytes = 0;
  float* biases_to = nullptr;
  const float* biases_from = nullptr;
  uint32_t bias_bytes = 0;
  int32_t tile = 0;
};

__device__ inline PieceCopy locate_piece(const WeightCut& cut, Matrix matrix, int32_t index,
                                         const SlotPool& pool, int64_t slot,
                                         const ExpertSource& source) {
  const bool is_w1 = matrix == Matrix::kW1;
  const WeightPiece piece = cut.piece(index);
  const int32_t rows = cut.halves * cut.rows;
  PieceCopy copy;
  copy.to = (is_w1 ? pool.w1 : pool.w2) + slot * rows * cut.row_bytes + piece.offset;
  copy.from = (is_w1 ? source.w1 : source.w2) + piece.offset;
  copy.bytes = static_cast<uint32_t>(piece.bytes);
  copy.tile = piece.tile;
  float* const biases = is_w1 ? pool.b1 : pool.b2;
  if (biases == nullptr) return copy;
  copy.biases_to = biases + slot * rows + piece.first_row;
  copy.biases_from = (is_w1 ? source.b1 : source.b2) + piece.first_row;
  copy.bias_bytes = static_cast<uint32_t>(piece.bias_rows) * uint32_t{sizeof(float)};
  return copy;
}

}  // namespace megaflux
