// Outputs that would replace one another or an input are refused before any work.
//
// Example, `plan loads.csv --json loads.csv`:
//     --json: loads.csv is the LOADS loads.csv, which would be overwritten
#pragma once

#include <string>
#include <vector>

namespace megaflux::cli {

// A file, and the argument that names it.
struct NamedFile {
  std::string argument;
  std::string path;
};

// Throws kBadInput naming both if two outputs are one file, or an output is an input, which it
// would replace. Empty paths, "-" and what is no regular file, as /dev/null, are always fine.
void check_distinct(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs);

}  // namespace megaflux::cli
