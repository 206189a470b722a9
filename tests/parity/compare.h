// Comparisons of step outputs: with the reference within a tolerance, with each other bit for bit.
#pragma once

#include <string>

#include "megaflux/layer/reference/reference.h"
#include "parity/cpu_rig.h"

namespace megaflux {

// Relative errors against the reference: root mean square of the difference over that of the
// reference.
struct Errors {
  double y = 0, dx = 0, dp = 0, w1 = 0, w2 = 0, b1 = 0, b2 = 0;
  double worst_gradient() const;
};
// NaN anywhere gives an infinite error.
Errors errors_of(const StepData& data, const StepOutput& out, const ReferenceOutput& expected);

// Allowed error of y; bf16 rounds A, Z, dZ, p A, O and the outputs, 2^-9 relative each.
double output_tolerance(const LayerShape& shape);
// Allowed error of gradients. A clamp's gradient jumps at the limit, and rounding Z to bf16 carries
// about one channel in a thousand across.
double gradient_tolerance(const LayerShape& shape);

// "" if y, dX and dp are equal bit for bit, else which tensor of which rank differs first.
std::string token_difference(const StepOutput& a, const StepOutput& b);
// The same for the weight gradients.
std::string gradient_difference(const StepOutput& a, const StepOutput& b);

}  // namespace megaflux
