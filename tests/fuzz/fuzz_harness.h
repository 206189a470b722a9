// What every fuzz target shares: errors that are fine, and checks that end the program.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "fuzz/fuzz_targets.h"
#include "megaflux/base/check.h"

namespace megaflux::fuzz {

inline std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A reader may refuse its input, with a message; a mistake of our own is none of its answers.
template <typename Read>
void accept_refusal(Read&& read) {
  try {
    std::forward<Read>(read)();
  } catch (const Error& error) {
    const bool is_refusal =
        error.code() == ErrorCode::kBadInput || error.code() == ErrorCode::kUnsupported;
    if (is_refusal && *error.what() != '\0') return;
    std::fprintf(stderr, "a reader threw: %s\n", error.what());
    std::abort();
  }
}

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

}  // namespace megaflux::fuzz
