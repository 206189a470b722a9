#include "megaflux/plan/plan_maps.h"

#include <algorithm>

#include "megaflux/base/check.h"
#include "megaflux/moe/owner_table.h"

namespace megaflux {

PlanMaps plan_maps(const Plan& plan) {
  MF_CHECK(!plan.empty(), "plan: is empty");
  const PlanDims dims = plan.dims();
  const int32_t s = dims.replica_slots;
  const std::vector<int32_t> owned = owned_experts(plan.owner_of(), dims.num_ranks);
  const std::vector<int32_t> local_index = local_index_of(plan.owner_of(), dims.num_ranks);

  PlanMaps maps;
  maps.num_ranks = dims.num_ranks;
  maps.replica_slots = s;
  maps.num_physical = dims.num_experts + dims.num_ranks * s;
  maps.rank_begin.assign(1, 0);
  for (int32_t rank = 0; rank < dims.num_ranks; ++rank) {
    maps.rank_begin.push_back(maps.rank_begin[rank] + owned[rank] + s);
  }
  const auto owner_id = [&](int32_t e) {
    return maps.rank_begin[plan.owner_of()[e]] + local_index[e];
  };
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    maps.logical_replica_count.push_back(static_cast<int32_t>(plan.instances_of(e).size()));
    maps.max_copies = std::max(maps.max_copies, maps.logical_replica_count[e]);
  }
  maps.physical_to_logical.assign(maps.num_physical, -1);
  maps.logical_to_physical.assign(static_cast<size_t>(dims.num_experts) * maps.max_copies, -1);
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    int32_t* next = &maps.logical_to_physical[static_cast<size_t>(e) * maps.max_copies];
    *next++ = owner_id(e);
    maps.physical_to_logical[owner_id(e)] = e;
    for (const Instance& instance : plan.instances_of(e)) {
      if (instance.slot < 0) continue;
      const int32_t id = maps.rank_begin[instance.rank] + owned[instance.rank] + instance.slot;
      *next++ = id;
      maps.physical_to_logical[id] = e;
    }
  }
  maps.slot_experts.assign(plan.slot_expert().begin(), plan.slot_expert().end());
  for (size_t i = 0; i < maps.slot_experts.size(); ++i) {
    const int32_t e = maps.slot_experts[i];
    maps.source_slots.push_back(e < 0 ? -1 : owner_id(e));
    maps.experts_to_copy.push_back(plan.slot_resident()[i] != 0 ? -1 : e);
  }
  return maps;
}

}  // namespace megaflux
