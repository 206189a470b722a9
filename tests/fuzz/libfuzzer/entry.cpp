// libFuzzer's way into one target, MF_FUZZ_TARGET.
#include <cstdint>

#include "fuzz/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  megaflux::fuzz::MF_FUZZ_TARGET({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
