// The readers of bytes from outside, each as a function that takes any bytes at all. It returns
// when they were read, having checked again what the reader promises, and when they were refused
// with Error; any other way out is a bug. libFuzzer (libfuzzer/entry.cpp) and the replay of the
// corpus (test_corpus.cpp) call the same functions.
//
// A new reader gets a function here, a file fuzz_READER.cpp, a folder corpus/READER/ and a line in
// CMakeLists.txt.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace megaflux::fuzz {

using Bytes = std::span<const std::byte>;

void fuzz_npy(Bytes bytes);
void fuzz_zip(Bytes bytes);
void fuzz_trace(Bytes bytes);
void fuzz_trace_meta(Bytes bytes);
void fuzz_load_csv(Bytes bytes);
void fuzz_plan(Bytes bytes);
void fuzz_options(Bytes bytes);
void fuzz_import_npy(Bytes bytes);
void fuzz_import_json(Bytes bytes);
void fuzz_import_csv(Bytes bytes);
void fuzz_import_npz(Bytes bytes);

struct Target {
  std::string_view name;  // of its folder below corpus/
  void (*read)(Bytes);
};

inline constexpr std::array<Target, 11> kTargets = {{{"npy", fuzz_npy},
                                                     {"zip", fuzz_zip},
                                                     {"trace", fuzz_trace},
                                                     {"trace_meta", fuzz_trace_meta},
                                                     {"load_csv", fuzz_load_csv},
                                                     {"plan", fuzz_plan},
                                                     {"options", fuzz_options},
                                                     {"import_npy", fuzz_import_npy},
                                                     {"import_json", fuzz_import_json},
                                                     {"import_csv", fuzz_import_csv},
                                                     {"import_npz", fuzz_import_npz}}};

}  // namespace megaflux::fuzz
