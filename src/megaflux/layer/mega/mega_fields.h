// Where a layer on the GPU stands in memory: the words and results that ranks share, in the group's
// heap, and what a rank has for itself, in one allocation.
//
// Example: P = 1, T_max = 256, K = 4, H = 1024, 16 experts, C = 3,328 rows: the heap holds 1,024
// results of 2 KB and 32 + 3 x 24 + 2 words in two banks, the workspace 6.5 MiB of rows.
#pragma once

#include <cstdint>

#include "megaflux/base/bf16.h"
#include "megaflux/comm/layout.h"
#include "megaflux/comm/row_map.h"
#include "megaflux/layer/mega/mega_config.h"
#include "megaflux/layer/mega/pull_list.h"
#include "megaflux/layer/mega/tasks.h"

namespace megaflux {

// Whose weights slots hold.
struct SlotKey {
  uint64_t weight_version = 0;
  int64_t layer = 0;

  MF_HOST_DEVICE friend bool operator==(const SlotKey& a, const SlotKey& b) {
    return a.weight_version == b.weight_version && a.layer == b.layer;
  }
};

// In every rank's heap. docs/memory_order.md says who writes a word and who waits for it.
struct MegaFields {
  // [T_max, H] the rank's tokens, for its peers; none where there are no peers.
  Field<Bf16> tokens;
  Field<Bf16> results;    // [T_max K, H] O of each (token, k), written by whoever computed it
  CounterField y_count;   // [ceil(T_max / 8)] rows of a token group whose results have arrived
  CounterField x_full;    // [max_tiles] rows of a tile that are in the pool
  CounterField a_full;    // [max_tiles] FC1 tasks of a tile whose A is in the pool
  CounterField o_done;    // [max_tiles] FC2 tasks of a tile that are done
  CounterField w1_ready;  // [s, fc1_columns] pieces of a slot's W1 that have arrived, by tile
  CounterField w2_ready;  // [s, fc2_columns] the same of W2
  // [P, s] experts whose weights the slots of all ranks hold since the last launch that entered; -1
  // = none, which is what they hold before the first one.
  Field<int32_t> slot_experts;
  Field<SlotKey> slot_key;  // [1] the weights that slot_experts is about (slot_table_cuda.h)
  CounterField next_task;   // [1] tasks given out beyond the first of each CTA
  CounterField next_slice;  // [1] slices of tokens given out for their sums
};
MegaFields add_mega_fields(Layout& layout, const MegaConfig& config);
// The counters alone, which every launch of their group clears, heads too; the other fields empty.
MegaFields add_mega_counters(Layout& layout, const MegaConfig& config);

// Which slots a launch fills.
struct PulledSlots {
  int32_t num_runs = 0;
  int32_t num_weights = 0;  // pieces of weights in the list
  uint32_t mask = 0;        // bit i: slot i
};

// Of one rank, in its device's memory; nobody else reaches it.
struct WorkspaceFields {
  Field<Bf16> x;              // [C, H] rows in list order
  Field<Bf16> a;              // [C, I] their activations
  Field<RowOrigin> origins;   // [128 max_tiles] of each row; source -1 = padding
  Field<Unit> units;          // [max_tiles + 1]
  Field<int32_t> num_units;   // [1]
  Field<WeightRun> runs;      // [16] weights in the pull list
  Field<PulledSlots> pulled;  // [1]
  // Weights of replicas; biases where the shape has them.
  Field<Bf16> slot_w1;   // [s, 2I, H]
  Field<Bf16> slot_w2;   // [s, H, I]
  Field<float> slot_b1;  // [s, 2I]
  Field<float> slot_b2;  // [s, H]
};
WorkspaceFields add_workspace_fields(Layout& layout, const MegaConfig& config);

}  // namespace megaflux
