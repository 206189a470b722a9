// Where the recorded traces that come with megaflux lie.
#pragma once

#include <string>

namespace megaflux::cli {

// ../share/megaflux/data from the program, where an installation puts them, else the source tree's
// data/. Throws kBadInput naming both if neither is there.
std::string data_folder();

}  // namespace megaflux::cli
