// One array without a name: counts per expert or ids of experts, told apart by --kind or, where the
// numbers leave no doubt, by them.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "convert/recording.h"

namespace megaflux::convert {

// The kind that the numbers allow. Ids: the experts of a token differ and are below 4096, at most
// 64 slots. Counts: none is negative, and the layers of a step add up to the same. Throws
// kBadInput, opening with `name` and asking for --kind, if both or neither fit.
Kind told_kind(const NumberArray& array, const std::string& name);

// Throws kBadInput, opening with `name`.
Recording array_recording(NumberArray array, const ImportSettings& settings,
                          const std::string& name);

// The same of the bytes of a .npy file.
Recording npy_recording(std::span<const std::byte> bytes, const ImportSettings& settings,
                        const std::string& name);

}  // namespace megaflux::convert
