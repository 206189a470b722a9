// Random values in device memory, the same on every device and in every run.
#pragma once

#include <cstdint>

#include "megaflux/base/bf16.h"

namespace megaflux {

// bf16 in [-scale, scale), `count` of them, of the current device; `seed` below 2^24 names the
// sequence. On the default stream: streams that must not see them half done start after a
// synchronisation. Throws kInternal with CUDA's words.
void fill_random(Bf16* values, int64_t count, float scale, uint64_t seed);

}  // namespace megaflux
