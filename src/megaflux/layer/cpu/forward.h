// The forward of one rank: FC1, activation and FC2 tile by tile, results pushed to their sources.
#pragma once

#include "megaflux/layer/cpu/launch.h"

namespace megaflux {

// Where Z of the tiles goes: tile n of the list to rows [128 n, 128 n + 128), as long as they are
// below `rows`. `data` null = Z is not kept.
struct ZStore {
  std::byte* data = nullptr;  // [rows, 2I] of the layer's dtype
  int64_t rows = 0;           // a multiple of 128
};

struct ForwardLaunch {
  Launch launch;      // work in order kOwnedFirst
  void* y = nullptr;  // [T, H], overwritten
  ZStore z;
};

// Called by both roles of every rank. Errors as wait_for and enter.
void run_forward(RankContext& ctx, RankWorkspace& ws, const ForwardLaunch& task);

// Z of one tile: X W1^T + b1 in fp32, in ws.tiles.z. Used by forward and by a backward that
// recomputes. `x` is the tile as GEMMs read it.
void compute_z(const RoleView& view, const Part& part, const void* x);

}  // namespace megaflux
