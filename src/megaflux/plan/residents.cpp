#include "megaflux/plan/residents.h"

#include <algorithm>

#include "megaflux/base/check.h"

namespace megaflux {

void check_residents(const PlanDims& dims, std::span<const int32_t> resident) {
  if (resident.empty()) return;
  const size_t slots = static_cast<size_t>(dims.num_ranks) * dims.replica_slots;
  MF_CHECK(resident.size() == slots, "resident: ", resident.size(), " entries, P s = ", slots,
           " are needed");
  for (size_t i = 0; i < slots; ++i) {
    MF_CHECK(resident[i] >= -1 && resident[i] < dims.num_experts, "resident[", i,
             "]: ", resident[i], " is outside [-1, ", dims.num_experts, ")");
  }
}

std::span<const int32_t> widened_residents(const PlanDims& dims, std::span<const int32_t> resident,
                                           int32_t replica_slots, std::vector<int32_t>& memory) {
  if (resident.empty() || replica_slots == dims.replica_slots) return resident;
  const size_t wide = replica_slots, narrow = dims.replica_slots;
  memory.assign(dims.num_ranks * wide, -1);
  for (int32_t rank = 0; rank < dims.num_ranks; ++rank) {
    std::copy_n(resident.begin() + rank * narrow, narrow, memory.begin() + rank * wide);
  }
  return memory;
}

}  // namespace megaflux
