// Trace: recorded routing of many steps and layers, schema "megaflux.trace/1"
// (docs/trace_format.md).
//
// Example: 1 step of N = 4 tokens, L = 2 layers (model layers 3 and 7), E = 3, K = 2, recorded on 2
// ranks:
//   topk_ids [4, 2, 2]      token 0: {{0,1}, {2,0}}, token 1: {{0,2}, {2,1}}, ...
//   step_offsets {0, 4}     tokens of step s are [step_offsets[s], step_offsets[s + 1])
//   rank_offsets {{0,1,4}}  of these, rank 0 had token 0 and rank 1 tokens 1 to 3
// loads(0, 0, 2) counts rank 0 as {1, 1, 0}. On any other number of ranks the four tokens are cut
// evenly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "megaflux/moe/load_table.h"
#include "megaflux/moe/routing.h"

namespace megaflux {

inline constexpr std::string_view kTraceSchema = "megaflux.trace/1";
inline constexpr int32_t kMaxTraceLayers = 1024;

struct TraceMeta {
  int32_t num_experts = 0;           // E, 1 ... 4096
  int32_t topk = 0;                  // K, 1 ... 64; 0 = not stated, only without ids
  int32_t num_ranks = 1;             // P at recording, 1 ... 1024; 1 = sources unknown
  std::vector<int32_t> layers = {};  // model layer ids, [L], distinct
  std::string model = {};
  std::string origin = {};
  std::string licence = {};
  bool time_ordered = false;  // steps follow each other in time
  int64_t first_step = 0;  // of a chunk NAME.001.npz: number of its first step in the whole trace
  friend bool operator==(const TraceMeta&, const TraceMeta&) = default;
};

// The arrays of a trace as they stand in the file; an empty vector = not in the file.
struct TraceData {
  TraceMeta meta = {};
  int64_t num_steps = 0;                   // S >= 1
  int32_t load_ranks = 0;                  // ranks axis of `loads`: 1 or num_ranks; 0 = no loads
  std::vector<int32_t> loads = {};         // [S, L, load_ranks, E]
  std::vector<int16_t> topk_ids = {};      // [N, L, K], -1 = not routed
  std::vector<int64_t> step_offsets = {};  // [S + 1]; empty only without ids
  std::vector<int64_t> rank_offsets = {};  // [S, P + 1], positions in N; empty only without ids
  std::vector<float> topk_weights = {};    // [N, L, K]; needs topk_ids
  // What a recorder adds.
  std::vector<int32_t> realised_rows = {};  // [S, L, P], rows each rank computed
  // [M, 6]: step (from 0 in this file), layer idx, expert, rank, slot, rows
  std::vector<int32_t> instances = {};
  std::vector<float> phase_us = {};  // [S, L, P, 8]
  std::vector<uint8_t> flags = {};   // [S, L]: 1 warm-up, 2 replay
  bool has_ids() const { return !step_offsets.empty(); }
  int32_t num_layers() const { return static_cast<int32_t>(meta.layers.size()); }
};

class Trace {
 public:
  // Checks everything; throws kBadInput naming `name`, array, position, value and limit: a size
  // that meta does not allow, negative counts, ids outside [-1, E), offsets that fall, loads and
  // ids that disagree.
  explicit Trace(TraceData data, std::string_view name = "trace");

  const TraceMeta& meta() const { return data_.meta; }
  const TraceData& data() const { return data_; }
  int64_t num_steps() const { return data_.num_steps; }
  int32_t num_layers() const { return data_.num_layers(); }
  bool has_ids() const { return data_.has_ids(); }
  bool has_weights() const { return !data_.topk_weights.empty(); }
  // Tokens of a step over all ranks; without ids rows / K, 0 if K is not stated.
  int64_t num_tokens(int64_t step) const;

  // Position of a model layer id in meta().layers; throws kBadInput listing the layers there are.
  int32_t layer_index(int32_t model_layer) const;

  // Rows per source rank and expert; `layer_idx` counts from 0. From ids, cut evenly over
  // `num_ranks` ranks (remainder to the low ones) unless that is the recorded number; from loads
  // the recorded sources if `num_ranks` is the recorded number, else totals split evenly
  // (has_sources() is false).
  LoadTable loads(int64_t step, int32_t layer_idx, int32_t num_ranks) const;
  // The same into a table whose memory is reused: for a walk over many steps.
  void read_loads(int64_t step, int32_t layer_idx, int32_t num_ranks, LoadTable& loads) const;

  // Routing of each rank. Weights are the recorded ones, or drawn from `seed` (moe/draw_ids.h), the
  // same for a token whatever `num_ranks` is. Without ids the tokens' experts are drawn too, so
  // that they add up to the recorded counts, scaled to a multiple of K where they are none (K must
  // be stated).
  std::vector<Routing> routing(int64_t step, int32_t layer_idx, int32_t num_ranks,
                               uint64_t seed = 1) const;

 private:
  void check_place(int64_t step, int32_t layer_idx, int32_t num_ranks) const;
  std::vector<int32_t> step_totals(int64_t step, int32_t layer_idx) const;
  // First token of each rank in the whole trace, [num_ranks + 1].
  std::vector<int64_t> token_cuts(int64_t step, int32_t num_ranks) const;
  std::vector<Routing> drawn_routing(int64_t step, int32_t layer_idx, int32_t num_ranks,
                                     uint64_t seed) const;

  TraceData data_;
  std::string name_;
};

// Cuts [first, last) into equal parts, the remainder to the low ones: [num_parts + 1] positions.
std::vector<int64_t> even_cuts(int64_t first, int64_t last, int32_t num_parts);

}  // namespace megaflux
