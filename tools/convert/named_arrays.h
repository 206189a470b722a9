// Recordings of SGLang and vLLM: arrays with the names that these systems give them, from a JSON
// file or an .npz file of whole numbers.
//
// Example: {"expert_load_pass": [[3, 1, 2]], "physical_to_logical_map": [[0, 1, 0]]} is one layer
// with an expert 0 in two places: loads {5, 1}.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "convert/json_arrays.h"
#include "convert/recording.h"

namespace megaflux::convert {

// Throw kBadInput, opening with `name`: no array or two arrays that a recording could be made of,
// other axes, physical counts without their map, a map outside the experts.
Recording json_recording(std::string_view text, const ImportSettings& settings,
                         const std::string& name);
Recording npz_recording(std::span<const std::byte> bytes, const ImportSettings& settings,
                        const std::string& name);

}  // namespace megaflux::convert
