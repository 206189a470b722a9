#include "cli/import/layer_list.h"

#include <algorithm>

#include "cli/options.h"
#include "megaflux/base/check.h"
#include "megaflux/trace/trace.h"

namespace megaflux::cli {
namespace {

constexpr Limits kLayers{0, 1 << 20};

}  // namespace

std::vector<int32_t> parse_layer_list(const std::string& option, const std::string& text) {
  std::vector<int32_t> layers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const size_t dash = word.find('-', 1);
    const int64_t first = parse_integer(option, word.substr(0, dash), kLayers);
    const int64_t last =
        dash == std::string::npos ? first : parse_integer(option, word.substr(dash + 1), kLayers);
    MF_CHECK(first <= last, option, ": ", word, " runs backwards, ", first, " must be at most ",
             last);
    MF_CHECK(static_cast<int64_t>(layers.size()) + last - first < kMaxTraceLayers, option, ": ",
             word, " makes more than ", kMaxTraceLayers, " layers");
    for (int64_t layer = first; layer <= last; ++layer) {
      MF_CHECK(std::find(layers.begin(), layers.end(), layer) == layers.end(), option, ": layer ",
               layer, " stands twice");
      layers.push_back(static_cast<int32_t>(layer));
    }
    begin = end + 1;
  }
  return layers;
}

}  // namespace megaflux::cli
