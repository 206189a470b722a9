// What a forward cannot beat under a plan: products, bytes of memory, and bytes of the links
// between devices, each at the rate that was measured of them on an H200.
//
// Example, one rank, 65,536 rows in full blocks over 16 experts, H 4096, I 1536: 2.47 TFLOP at 790
// TFLOP/s are 3.13 ms; 0.60 GB of weights, 0.54 of rows, 0.40 of activations and 0.54 of results at
// 4.3 TB/s are 0.48 ms.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/moe/layer_shape.h"
#include "megaflux/moe/plan.h"
#include "megaflux/moe/routing.h"

namespace megaflux::cli {

struct ForwardFloors {
  double math_ms = 0;    // of the rank with most rows, at its part of a device's rate
  double memory_ms = 0;  // of the device with most bytes, each once
  // Of the device with most bytes in one direction; 0 with one device. Weights of replicas that are
  // not resident count, and results go back row by row in both, since y sums them in the order of
  // k.
  double link_rows_ms = 0;    // tokens row by row as well
  double link_tokens_ms = 0;  // a token once to each rank that computes it
};

struct PlacedRouting {
  const Plan& plan;
  std::span<const Routing> routing;    // [P]
  std::span<const int32_t> device_of;  // [P]
  bool is_resident = false;            // no weights move
};

ForwardFloors forward_floors(const LayerShape& shape, const PlacedRouting& placed);

// Products of the forward of so many rows.
double forward_flops(const LayerShape& shape, int64_t rows);

}  // namespace megaflux::cli
