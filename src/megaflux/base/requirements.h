// Requirements: what something needs, line by line, and which of it is there.
//
// Example: require(false, "1000 bytes a rank", "the limit is 800 bytes") adds "1000 bytes a rank"
// to `needed` and "1000 bytes a rank: the limit is 800 bytes" to `missing`.
#pragma once

#include <string>
#include <vector>

namespace megaflux {

struct Requirements {
  std::vector<std::string> needed;     // every requirement, in words
  std::vector<std::string> supported;  // those that are met
  std::vector<std::string> missing;    // those that are not, with the limit that they exceed

  bool is_supported() const { return missing.empty(); }
  // `reason`: why it is not met.
  void require(bool is_met, const std::string& requirement, const std::string& reason) {
    needed.push_back(requirement);
    if (is_met) {
      supported.push_back(requirement);
    } else {
      missing.push_back(requirement + ": " + reason);
    }
  }
};

}  // namespace megaflux
