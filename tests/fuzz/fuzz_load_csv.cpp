#include "fuzz/fuzz_harness.h"
#include "megaflux/trace/load_csv.h"

namespace megaflux::fuzz {

void fuzz_load_csv(Bytes bytes) {
  const std::string_view text = text_of(bytes);
  accept_refusal([&] {
    for (const auto& row : parse_csv(text, "fuzz")) {
      for (const int64_t value : row)
        require(value >= 0 && value <= INT32_MAX, "counts in 31 bits");
    }
  });
  for (const int32_t ranks : {1, 2, 7}) {
    accept_refusal([&] {
      const LoadTable loads = parse_load_csv(text, "fuzz", ranks);
      require(loads.num_ranks() == ranks && loads.total_rows() <= INT32_MAX, "limits of loads");
    });
  }
}

}  // namespace megaflux::fuzz
