// What a layer on GPUs needs of each rank, and whether this release and the memory at hand offer
// it.
//
// Example: the layer of mega_config.h (E 128, P 8, K 8, T_max 8192, s 2, H 4096, I 1536) has 604 MB
// of weights in owned experts, 75 in slots, 690 of row pool, 259 of activations, 67 of tokens and
// 537 of results.
#pragma once

#include <cstdint>
#include <string>

#include "megaflux/base/requirements.h"
#include "megaflux/layer/mega/mega_config.h"

namespace megaflux {

// Bytes of one rank, part by part, for the rank that owns most experts.
struct MegaMemory {
  // In the group's heap.
  int64_t tokens = 0;   // where peers read x
  int64_t results = 0;  // O of each (token, k)
  int64_t signals = 0;  // counters between CTAs and ranks
  // The workspace.
  int64_t rows = 0;           // x in list order
  int64_t activations = 0;    // A of these rows
  int64_t tables = 0;         // origins of rows, units
  int64_t replica_slots = 0;  // weights of replicas, biases included
  // Of a layer's owned experts, biases included; the caller's.
  int64_t weights = 0;

  int64_t heap() const { return tokens + results + signals; }
  int64_t workspace() const { return rows + activations + tables + replica_slots; }
  int64_t total() const { return heap() + workspace() + weights; }
};
// A resolved config only.
MegaMemory mega_memory(const MegaConfig& config);
// "tokens 64, results 512, ...", in bytes.
std::string describe(const MegaMemory& memory);

// What a layer needs, and whether it is there.
struct MegaSupport : Requirements {
  MegaMemory memory;  // zero if the config itself is refused
};
// `rank_sms` as in resolve_config. `memory_limit_bytes` bounds one rank; 0 = unlimited.
MegaSupport supports(const MegaConfig& config, int32_t rank_sms, int64_t memory_limit_bytes = 0);

}  // namespace megaflux
