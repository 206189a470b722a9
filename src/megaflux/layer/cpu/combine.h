// Combine: the comm role sums the results of each of its tokens, k ascending, in fp32 from 0.
#pragma once

#include "megaflux/layer/cpu/launch.h"

namespace megaflux {

// y_t = dtype(fma over k of p_tk O). `y` is [T, H]; tokens without results get zeros.
void combine_outputs(const RoleView& view, void* y);
// dX_t = dtype(sum over k of the rows' dX), and dp [T, K], 0 where the id is -1.
void combine_gradients(const RoleView& view, void* dx, float* dp);

}  // namespace megaflux
