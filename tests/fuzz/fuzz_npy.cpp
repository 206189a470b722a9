#include <algorithm>

#include "fuzz/fuzz_harness.h"
#include "megaflux/trace/npy.h"

namespace megaflux::fuzz {

void fuzz_npy(Bytes bytes) {
  accept_refusal([&] {
    const NpyView view = parse_npy(bytes, "fuzz");
    // A zero extent is looked for first: the others may multiply to more than fits.
    int64_t elements = std::find(view.shape.begin(), view.shape.end(), 0) == view.shape.end();
    for (const int64_t extent : view.shape) elements = elements == 0 ? 0 : elements * extent;
    require(elements == view.num_elements(), "the shape is the payload's");
    require(view.payload.size() <= bytes.size(), "the payload lies in the file");
    const auto again = encode_npy(view.type, view.shape, view.payload);
    const NpyView second = parse_npy(again, "again");
    require(second.type == view.type && second.shape == view.shape, "the header survives writing");
    require(std::equal(view.payload.begin(), view.payload.end(), second.payload.begin(),
                       second.payload.end()),
            "the payload survives writing");
  });
}

}  // namespace megaflux::fuzz
