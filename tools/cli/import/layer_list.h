// Model layers on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace megaflux::cli {

// "3-77", "0,7,15", "1,4-6": the layers in the order given. Throws kBadInput naming `option`: no
// number, outside [0, 2^20], a range that runs backwards, more than 1024 layers, one twice.
std::vector<int32_t> parse_layer_list(const std::string& option, const std::string& text);

}  // namespace megaflux::cli
