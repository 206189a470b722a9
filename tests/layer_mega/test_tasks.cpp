#include "megaflux/layer/mega/tasks.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

namespace megaflux {
namespace {

std::vector<Part> parts_of(const std::vector<int32_t>& rows) {
  std::vector<Part> parts;
  int32_t tile = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    Part part;
    part.weight_slot = static_cast<int32_t>(3 * i);
    part.num_rows = rows[i];
    part.first_tile = tile;
    part.num_tiles = ceil_div(rows[i], kTileRows);
    tile += part.num_tiles;
    parts.push_back(part);
  }
  return parts;
}

std::vector<Unit> units_of(const std::vector<Part>& parts, int32_t unit_tiles) {
  std::vector<Unit> units;
  int32_t num_tiles = 0;
  for (const Part& part : parts) {
    const int32_t count = num_units_of(part.num_tiles, unit_tiles);
    for (int32_t u = 0; u < count; ++u) units.push_back(unit_of(part, count, u));
    num_tiles += part.num_tiles;
  }
  units.push_back({.first_tile = num_tiles});
  return units;
}

// All tasks of a list, by position.
std::vector<Task> tasks_of(const TaskOrder& order) {
  std::vector<Task> tasks;
  for (int32_t step = 0; step < order.num_steps(); ++step) {
    const int32_t end =
        step + 1 < order.num_steps() ? order.step_begin(step + 1) : order.num_tasks();
    EXPECT_EQ(order.step_begin(step), static_cast<int32_t>(tasks.size()));
    EXPECT_GT(end, order.step_begin(step));
    for (int32_t at = order.step_begin(step); at < end; ++at)
      tasks.push_back(order.task_at(step, at));
  }
  return tasks;
}

TEST(Tasks, TheExampleOfTheHeader) {
  const std::vector<Unit> units = {{0, 2, 0, 128}, {2, 1, 3, 7}, {3, 0, 0, 0}};
  const TaskOrder order = {
      .table = {units.data(), 2}, .fc1_columns = 2, .fc2_columns = 1, .lag = 1};
  std::vector<std::tuple<int, int, int, int>> got;
  for (const Task& task : tasks_of(order)) {
    got.emplace_back(static_cast<int>(task.phase), task.tile, task.column, task.num_rows);
  }
  const std::vector<std::tuple<int, int, int, int>> expected = {
      {0, 0, 0, 128}, {0, 1, 0, 128}, {0, 0, 1, 128}, {0, 1, 1, 128}, {0, 2, 0, 7},
      {0, 2, 1, 7},   {1, 0, 0, 128}, {1, 1, 0, 128}, {1, 2, 0, 7}};
  EXPECT_EQ(got, expected);
}

TEST(Tasks, AnEmptyListHasNone) {
  const std::vector<Unit> units = {{0, 0, 0, 0}};
  const TaskOrder order = {.table = {units.data(), 0}, .fc1_columns = 3, .fc2_columns = 2};
  EXPECT_EQ(order.num_tasks(), 0);
  EXPECT_EQ(order.num_steps(), 0);
}

RC_GTEST_PROP(Tasks, UnitsCoverPartsWithNearlyEqualSizes, ()) {
  const auto rows = *rc::gen::container<std::vector<int32_t>>(rc::gen::inRange(1, 5000));
  const int32_t unit_tiles = *rc::gen::inRange(1, 9);
  const std::vector<Part> parts = parts_of(rows);
  int32_t tile = 0;
  for (const Part& part : parts) {
    const int32_t count = num_units_of(part.num_tiles, unit_tiles);
    int32_t in_units = 0, least = kTileRows, most = 0;
    for (int32_t u = 0; u < count; ++u) {
      const Unit unit = unit_of(part, count, u);
      RC_ASSERT(unit.first_tile == tile);
      RC_ASSERT(unit.weight_slot == part.weight_slot);
      tile += unit.num_tiles;
      in_units += (unit.num_tiles - 1) * kTileRows + unit.last_rows;
      least = std::min(least, unit.num_tiles);
      most = std::max(most, unit.num_tiles);
    }
    RC_ASSERT(in_units == part.num_rows);
    RC_ASSERT(most <= unit_tiles && most - least <= 1);
  }
}

// Each tile and column of each phase once; FC2 of a tile behind all its FC1; in a ring, the next
// user of a place behind all FC2 of the one before.
RC_GTEST_PROP(Tasks, EveryTaskOnceBehindWhatItWaitsFor, ()) {
  const auto rows = *rc::gen::container<std::vector<int32_t>>(rc::gen::inRange(1, 1500));
  const int32_t pool_tiles = *rc::gen::inRange(1, 60);
  const int32_t unit_tiles = std::clamp(pool_tiles / 4, 1, 8);
  const std::vector<Unit> units = units_of(parts_of(rows), unit_tiles);
  TaskOrder order = {.table = {units.data(), static_cast<int32_t>(units.size()) - 1},
                     .fc1_columns = *rc::gen::inRange(1, 4),
                     .fc2_columns = *rc::gen::inRange(1, 4)};
  order.lag = choose_lag({.num_units = order.table.num_units,
                          .num_tiles = order.num_tiles(),
                          .fc1_columns = order.fc1_columns,
                          .wanted_tasks = *rc::gen::inRange(1, 400),
                          .unit_tiles = unit_tiles,
                          .pool_tiles = pool_tiles});
  RC_ASSERT(order.lag >= 0);
  const std::vector<Task> tasks = tasks_of(order);
  RC_ASSERT(static_cast<int32_t>(tasks.size()) == order.num_tasks());
  std::vector<int32_t> fc1(order.num_tiles()), fc2(order.num_tiles());
  std::set<std::tuple<Phase, int32_t, int32_t>> seen;
  for (const Task& task : tasks) {
    RC_ASSERT(seen.insert({task.phase, task.tile, task.column}).second);
    if (task.phase == Phase::kFc2) {
      RC_ASSERT(fc1[task.tile] == order.fc1_columns);
      ++fc2[task.tile];
      continue;
    }
    ++fc1[task.tile];
    const int32_t before = task.tile - pool_tiles;
    if (before >= 0) RC_ASSERT(fc2[before] == order.fc2_columns);
  }
  for (int32_t tile = 0; tile < order.num_tiles(); ++tile) {
    RC_ASSERT(fc1[tile] == order.fc1_columns && fc2[tile] == order.fc2_columns);
  }
}

TEST(Tasks, TheLagHoldsTheTasksThatWereAskedFor) {
  // 64 units of 8 tiles, 12 columns: 96 tasks a unit.
  const LagLimits limits = {.num_units = 64,
                            .num_tiles = 512,
                            .fc1_columns = 12,
                            .wanted_tasks = 264,
                            .unit_tiles = 8,
                            .pool_tiles = 1024};
  EXPECT_EQ(choose_lag(limits), 3);
  LagLimits few = limits;
  few.num_units = 2, few.num_tiles = 2;
  EXPECT_EQ(choose_lag(few), 2);  // all of FC1 first
  LagLimits ring = limits;
  ring.pool_tiles = 24;
  EXPECT_EQ(choose_lag(ring), 2);
}

}  // namespace
}  // namespace megaflux
