#include "megaflux/layer/mega/pull_list.h"

#include <gtest/gtest.h>

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
