// PlannedFields: where the head of a step, or whoever planned it, has left what a layer on devices
// follows: places in every rank's heap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "megaflux/comm/layout.h"
#include "megaflux/comm/row_map.h"
#include "megaflux/moe/plan_view.h"
#include "megaflux/moe/work_list.h"

namespace megaflux {

struct PlannedFields {
  RouteFields routes;            // read by peers
  Field<int32_t> source_begin;   // [P + 1, E] comm/row_map_device.cuh
  Field<int32_t> route_offsets;  // [P, E + 1] the same
  Field<std::byte> plan;         // bytes of the plan; a header of zeros stands for none
  Field<WorkListHeader> work;    // [1] of the rank, in order kOwnedFirst
  Field<Part> parts;             // [E]
  // Of a plan: s, and where things stand in its bytes.
  int32_t replica_slots = 0;
  PlanView view;
  size_t slot_expert = 0;
  size_t slot_resident = 0;
};

// What follows from E, P and s; the places are set by whoever knows them.
inline PlannedFields planned_for(const PlanDims& dims) {
  const PlanLayout layout(dims);
  PlannedFields planned;
  planned.replica_slots = dims.replica_slots;
  planned.view = PlanView::of(dims);
  planned.slot_expert = layout.slot_expert;
  planned.slot_resident = layout.slot_resident;
  return planned;
}

}  // namespace megaflux
