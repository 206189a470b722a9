// Tasks: what the CTAs of one rank compute in a forward, in the one order of its list. Host and
// device share this code; a list is a table of units and closed forms over it.
//
// A unit is up to 16 row tiles of one part. FC1 of unit k comes before FC1 of unit k + 1, and FC2
// of unit k right behind FC1 of unit k + lag. Inside a phase of a unit, the row tiles of one column
// tile are neighbours: they read the same weights.
//
// Example: units of 2 and 1 tiles, FC1 with 2 column tiles, FC2 with 1, lag 1. Seven FC1 and FC2
// tasks (phase unit: row tile.column tile):
//   step 0: FC1 0: 0.0 1.0 0.1 1.1 | step 1: FC1 1: 2.0 2.1, FC2 0: 0.0 1.0 | step 2: FC2 1: 2.0
#pragma once

#include <cstdint>

#include "megaflux/base/math.h"
#include "megaflux/moe/work_list.h"

namespace megaflux {

// A run of row tiles of one part, as a row of the table.
struct alignas(16) Unit {
  int32_t first_tile = 0;   // position in the rank's list of tiles
  int32_t num_tiles = 0;    // 1 ... 16
  int32_t weight_slot = 0;  // of the part
  int32_t last_rows = 0;    // rows of the last tile, 1 ... 128; the others are full
};
static_assert(sizeof(Unit) == 16);

// Behind the last unit of a table stands one without tiles that begins where the list ends.
struct UnitTable {
  const Unit* units = nullptr;
  int32_t num_units = 0;
};

enum class Phase : int32_t { kFc1, kFc2 };

struct Task {
  Phase phase = Phase::kFc1;
  int32_t tile = 0;    // row tile, as in Unit
  int32_t column = 0;  // column tile: 128 channels of A in FC1, 256 columns of O in FC2
  int32_t weight_slot = 0;
  int32_t num_rows = 0;  // of the row tile
};

struct TaskOrder {
  UnitTable table;
  int32_t fc1_columns = 1;
  int32_t fc2_columns = 1;
  int32_t lag = 0;  // units

  MF_HOST_DEVICE int32_t num_steps() const {
    return table.num_units == 0 ? 0 : table.num_units + lag;
  }
  MF_HOST_DEVICE int32_t num_tiles() const { return table.units[table.num_units].first_tile; }
  // Position of the first task of a step, 0 <= step <= num_steps(); strictly increasing.
  MF_HOST_DEVICE int32_t step_begin(int32_t step) const {
    const int32_t fc1 = step < table.num_units ? step : table.num_units;
    const int32_t fc2 = step > lag ? step - lag : 0;
    return table.units[fc1].first_tile * fc1_columns + table.units[fc2].first_tile * fc2_columns;
  }
  MF_HOST_DEVICE int32_t num_tasks() const { return num_tiles() * (fc1_columns + fc2_columns); }

  // The task at `position`, which lies in `step`.
  MF_HOST_DEVICE Task task_at(int32_t step, int32_t position) const {
    int32_t offset = position - step_begin(step);
    Task task;
    Unit unit;
    if (step < table.num_units) unit = table.units[step];
    if (offset >= unit.num_tiles * fc1_columns) {
      offset -= unit.num_tiles * fc1_columns;
      task.phase = Phase::kFc2;
      unit = table.units[step - lag];
    }
    task.column = offset / unit.num_tiles;
    const int32_t place = offset % unit.num_tiles;
    task.tile = unit.first_tile + place;
    task.weight_slot = unit.weight_slot;
    task.num_rows = place + 1 == unit.num_tiles ? unit.last_rows : kTileRows;
    return task;
  }
};

// Units of a part, of nearly equal size.
MF_HOST_DEVICE inline int32_t num_units_of(int32_t num_tiles, int32_t unit_tiles) {
  return ceil_div(num_tiles, unit_tiles);
}
// The unit `index` of num_units_of(part.num_tiles, unit_tiles).
MF_HOST_DEVICE inline Unit unit_of(const Part& part, int32_t num_units, int32_t index) {
  const int32_t size = part.num_tiles / num_units, larger = part.num_tiles % num_units;
  const int32_t first = index * size + (index < larger ? index : larger);
  const int32_t num_tiles = size + (index < larger ? 1 : 0);
  const bool is_last = index + 1 == num_units;
  return {.first_tile = part.first_tile + first,
          .num_tiles = num_tiles,
          .weight_slot = part.weight_slot,
          .last_rows = is_last ? part.num_rows - (part.num_tiles - 1) * kTileRows : kTileRows};
}

// What a lag is chosen from.
struct LagLimits {
  int32_t num_units = 0;
  int32_t num_tiles = 0;
  int32_t fc1_columns = 1;
  int32_t wanted_tasks = 0;  // of FC1 between FC1 and FC2 of a unit
  int32_t unit_tiles = 1;
  int32_t pool_tiles = 1;
};

// Units between FC1 and FC2, the fewest that hold wanted_tasks on average. If the pools are rings,
// FC2 of the tile that used a place of the pool must come before FC1 of the next one: a distance of
// pool_tiles tiles, so at least ceil((pool_tiles - unit_tiles + 1) / unit_tiles) units.
MF_HOST_DEVICE inline int32_t choose_lag(const LagLimits& limits) {
  if (limits.num_units == 0) return 0;
  const int64_t tasks = int64_t{limits.num_tiles} * limits.fc1_columns;
  const auto wanted =
      static_cast<int32_t>(ceil_div(int64_t{limits.wanted_tasks} * limits.num_units, tasks));
  int32_t most = limits.num_units;
  if (limits.num_tiles > limits.pool_tiles) {
    most = ceil_div(limits.pool_tiles - limits.unit_tiles + 1, limits.unit_tiles) - 1;
  }
  return wanted < most ? wanted : most;
}

}  // namespace megaflux
