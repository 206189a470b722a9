#include "megaflux/layer/mega/pull_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "megaflux/base/rng.h"
#include "megaflux/layer/mega/mega_config.h"
#include "megaflux/layer/mega/tasks.h"

namespace megaflux {
namespace {

// A list of parts, replicas last, and where everything stands in the list that follows from them.
struct Lists {
  std::vector<Part> parts;
  PullOrder order;
  int32_t pool_tiles = 0;
  std::vector<WeightRun> runs;

  int32_t num_tiles() const { return parts.back().first_tile + parts.back().num_tiles; }
  int32_t num_pieces() const {
    int32_t pieces = num_tiles() * kTilePieces;
    for (const WeightRun& run : runs) pieces += run.num_pieces;
    return pieces;
  }
  PulledPiece piece(int32_t position) const {
    int32_t last = -1;
    while (last + 1 < static_cast<int32_t>(runs.size()) && runs[last + 1].begin <= position) ++last;
    return piece_at(position, last, last < 0 ? WeightRun{} : runs[last]);
  }
};

void add_runs(Lists& lists) {
  int32_t before = 0;
  for (const Part& part : lists.parts) {
    if (!part.is_replica) continue;
    for (const Matrix matrix : {Matrix::kW1, Matrix::kW2}) {
      lists.runs.push_back(run_of(part, part.weight_slot, matrix, lists.order, before));
      before += lists.runs.back().num_pieces;
    }
  }
}

// Parts of random sizes, and the lag that a forward would choose for them.
Lists random_lists(Rng& rng) {
  Lists lists;
  const auto draw = [&](int32_t below) {
    return static_cast<int32_t>(rng.below(static_cast<uint32_t>(below)));
  };
  const int32_t num_owned = draw(6), num_replicas = 1 + draw(8);
  int32_t tile = 0, num_units = 0;
  lists.pool_tiles = 1 + draw(60);
  lists.order.unit_tiles = std::clamp(lists.pool_tiles / 4, 1, kUnitTiles);
  for (int32_t i = 0; i < num_owned + num_replicas; ++i) {
    const bool is_replica = i >= num_owned;
    const int32_t tiles = 1 + draw(draw(2) == 0 ? 3 : 40);
    lists.parts.push_back({.expert = i,
                           .weight_slot = is_replica ? i - num_owned : i,
                           .is_replica = is_replica,
                           .num_rows = tiles * kTileRows,
                           .first_tile = tile,
                           .num_tiles = tiles});
    tile += tiles;
    num_units += num_units_of(tiles, lists.order.unit_tiles);
  }
  lists.order.lag = choose_lag({.num_units = num_units,
                                .num_tiles = tile,
                                .fc1_columns = 1 + draw(12),
                                .wanted_tasks = draw(500),
                                .unit_tiles = lists.order.unit_tiles,
                                .pool_tiles = lists.pool_tiles});
  lists.order.num_pieces[0] = 1 + draw(50);
  lists.order.num_pieces[1] = 1 + draw(30);
  add_runs(lists);
  return lists;
}

TEST(PullList, TheExampleOfTheHeader) {
  Lists lists;
  lists.parts = {
      {.num_rows = 1280, .first_tile = 0, .num_tiles = 10},
      {.expert = 1, .is_replica = true, .num_rows = 2560, .first_tile = 10, .num_tiles = 20}};
  lists.order = {.unit_tiles = 8, .lag = 1, .num_pieces = {100, 50}};
  add_runs(lists);
  EXPECT_EQ(lists.runs[0].begin, 576);
  EXPECT_EQ(lists.runs[1].begin, 932);
  EXPECT_EQ(lists.num_pieces(), 1110);
  EXPECT_EQ(lists.piece(575).run, -1);
  EXPECT_EQ(lists.piece(575).index, 575);
  EXPECT_EQ(lists.piece(675).run, 0);
  EXPECT_EQ(lists.piece(675).index, 99);
  EXPECT_EQ(lists.piece(676).run, -1);
  EXPECT_EQ(lists.piece(676).index, 576);
  EXPECT_EQ(lists.piece(981).run, 1);
  EXPECT_EQ(lists.piece(1109).index, 30 * kTilePieces - 1);
}

TEST(PullList, EveryPieceOnceAndRowsInOrder) {
  Rng rng(1);
  for (int round = 0; round < 300; ++round) {
    const Lists lists = random_lists(rng);
    int32_t next_row = 0;
    std::vector<int32_t> next(lists.runs.size(), 0);
    for (int32_t position = 0; position < lists.num_pieces(); ++position) {
      const PulledPiece piece = lists.piece(position);
      ASSERT_EQ(piece.index, piece.run < 0 ? next_row++ : next[piece.run]++) << position;
    }
    EXPECT_EQ(next_row, lists.num_tiles() * kTilePieces);
    for (size_t i = 0; i < next.size(); ++i) EXPECT_EQ(next[i], lists.runs[i].num_pieces);
  }
}

// Rows of a tile in a ring wait for FC1 of the tile that had the place of its rows, which may wait
// for FC2 of the tile that had the place of its A: what either needs is brought before.
TEST(PullList, NothingThatRowsWaitForIsBroughtBehindThem) {
  Rng rng(2);
  int32_t num_rings = 0;
  for (int round = 0; round < 300; ++round) {
    const Lists lists = random_lists(rng);
    std::vector<int32_t> row_position(lists.num_tiles());   // of a tile's first piece
    std::vector<int32_t> weight_end(lists.runs.size(), 0);  // behind a run's last piece
    for (int32_t position = 0; position < lists.num_pieces(); ++position) {
      const PulledPiece piece = lists.piece(position);
      if (piece.run >= 0) {
        weight_end[piece.run] = position + 1;
      } else if (piece.index % kTilePieces == 0) {
        row_position[piece.index / kTilePieces] = position;
      }
    }
    const auto end_of = [&](int32_t tile, Matrix matrix) {
      for (const Part& part : lists.parts) {
        if (!part.is_replica || tile < part.first_tile) continue;
        if (tile >= part.first_tile + part.num_tiles) continue;
        return weight_end[2 * part.weight_slot + static_cast<int32_t>(matrix)];
      }
      return 0;
    };
    for (int32_t tile = lists.pool_tiles; tile < lists.num_tiles(); ++tile) {
      const int32_t before = tile - lists.pool_tiles;
      ++num_rings;
      ASSERT_LE(end_of(before, Matrix::kW1), row_position[tile]);
      if (before < lists.pool_tiles) continue;
      ASSERT_LE(end_of(before - lists.pool_tiles, Matrix::kW2), row_position[tile]);
    }
  }
  EXPECT_GT(num_rings, 1000);
}

// The table of units that a list of tasks follows from.
std::vector<Unit> units_of(const Lists& lists) {
  std::vector<Unit> units;
  for (const Part& part : lists.parts) {
    const int32_t num_units = num_units_of(part.num_tiles, lists.order.unit_tiles);
    for (int32_t i = 0; i < num_units; ++i) units.push_back(unit_of(part, num_units, i));
  }
  units.push_back({.first_tile = lists.num_tiles()});
  return units;
}

// FC1 of the tile that had the place of a tile's rows comes when all tasks before it in the list
// are done, those of other tiles and FC2 among them: what any of them needs stands before these
// rows.
TEST(PullList, NothingThatTasksAheadNeedIsBroughtBehindRowsThatWait) {
  Rng rng(4);
  int32_t num_waits = 0;
  for (int round = 0; round < 300; ++round) {
    const Lists lists = random_lists(rng);
    const std::vector<Unit> units = units_of(lists);
    const TaskOrder tasks = {.table = {units.data(), static_cast<int32_t>(units.size()) - 1},
                             .fc1_columns = 2,
                             .fc2_columns = 2,
                             .lag = lists.order.lag};
    std::vector<int32_t> row_begin(lists.num_tiles()), row_end(lists.num_tiles());
    std::vector<int32_t> weight_end(lists.runs.size(), 0);
    for (int32_t position = 0; position < lists.num_pieces(); ++position) {
      const PulledPiece piece = lists.piece(position);
      if (piece.run >= 0) {
        weight_end[piece.run] = position + 1;
        continue;
      }
      const int32_t tile = piece.index / kTilePieces;
      if (piece.index % kTilePieces == 0) row_begin[tile] = position;
      row_end[tile] = position + 1;
    }
    // What a task needs ends here in the pull list.
    const auto need_of = [&](const Task& task) {
      const bool is_fc1 = task.phase == Phase::kFc1;
      int32_t need = is_fc1 ? row_end[task.tile] : 0;
      for (const Part& part : lists.parts) {
        if (!part.is_replica || task.tile < part.first_tile ||
            task.tile >= part.first_tile + part.num_tiles) {
          continue;
        }
        need = std::max(need, weight_end[2 * part.weight_slot + (is_fc1 ? 0 : 1)]);
      }
      return need;
    };
    int32_t need = 0;  // of all tasks up to this one
    for (int32_t step = 0; step < tasks.num_steps(); ++step) {
      for (int32_t at = tasks.step_begin(step); at < tasks.step_begin(step + 1); ++at) {
        const Task task = tasks.task_at(step, at);
        need = std::max(need, need_of(task));
        const int32_t waiting = task.tile + lists.pool_tiles;
        if (task.phase != Phase::kFc1 || waiting >= lists.num_tiles()) continue;
        ++num_waits;
        ASSERT_LE(need, row_begin[waiting]) << "round " << round << ", tile " << task.tile;
      }
    }
  }
  EXPECT_GT(num_waits, 1000);
}

TEST(WeightCut, PiecesCoverTheMatrixOnce) {
  Rng rng(3);
  for (int round = 0; round < 200; ++round) {
    const auto draw = [&](uint32_t below) { return static_cast<int32_t>(rng.below(below)); };
    const WeightCut cut = {.halves = 1 + draw(2),
                           .rows = 64 * (1 + draw(20)),
                           .row_bytes = 128 * (1 + draw(100)),
                           .tile_rows = draw(2) == 0 ? 128 : 256};
    const int64_t bytes = int64_t{cut.halves} * cut.rows * cut.row_bytes;
    std::vector<uint8_t> covered(static_cast<size_t>(bytes / 16));
    std::vector<uint8_t> biases(static_cast<size_t>(cut.halves) * cut.rows);
    for (int32_t i = 0; i < cut.num_pieces(); ++i) {
      const WeightPiece piece = cut.piece(i);
      ASSERT_EQ(piece.bytes % 16, 0);
      ASSERT_LE(piece.bytes, kWeightPieceBytes);
      for (int32_t at = 0; at < piece.bytes; at += 16) {
        const int64_t row = (piece.offset + at) / cut.row_bytes;
        ASSERT_EQ(row % cut.rows / cut.tile_rows, piece.tile) << i;
        ASSERT_EQ(covered[static_cast<size_t>((piece.offset + at) / 16)]++, 0) << i;
      }
      for (int32_t row = 0; row < piece.bias_rows; ++row) {
        ASSERT_EQ(biases[static_cast<size_t>(piece.first_row + row)]++, 0) << i;
      }
    }
    for (const uint8_t count : covered) ASSERT_EQ(count, 1);
    for (const uint8_t count : biases) ASSERT_EQ(count, 1);
  }
}

TEST(WeightCut, TheExampleOfTheHeader) {
  const MegaConfig config = resolve_config(
      {.shape = {.num_experts = 16, .topk = 8, .hidden = 4096, .inter = 1536}, .max_tokens = 64},
      132);
  const WeightCut cut = config.w1_cut();
  EXPECT_EQ(cut.num_tiles(), 12);
  EXPECT_EQ(cut.tile_pieces(), 64);
  const WeightPiece piece = cut.piece(65);
  EXPECT_EQ(piece.tile, 1);
  EXPECT_EQ(piece.offset, int64_t{132} * 8192);
  EXPECT_EQ(piece.bytes, 4 * 8192);
  EXPECT_EQ(cut.num_tiles(), config.fc1_columns());
  EXPECT_EQ(config.w2_cut().num_tiles(), config.fc2_columns());
}

}  // namespace
}  // namespace megaflux
