// Dispatch: the comm role pulls rows and replica weights from where they live into this rank's
// memory.
//
// Order of the list: rows of the first tiles, the first matrix of all slots, as many more rows as
// the pool takes without waiting, the second matrix of all slots, and the remaining rows, each tile
// once its place in the ring is free. Nothing waits for a tile that needs weights still to come, so
// there is no deadlock.
#pragma once

#include "megaflux/layer/cpu/launch.h"

namespace megaflux {

// Which matrix of a replica the pass needs first.
enum class MatrixOrder : uint8_t {
  kW1First,  // forward, and a backward that recomputes Z
  kW2First,  // a backward that reads Z
};

// Comm role, after join_entry.
void pull_all(const RoleView& view, MatrixOrder order);

}  // namespace megaflux
