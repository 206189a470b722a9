// Case file: recorded counts as plain numbers, for machines that have neither our traces nor what
// it takes to read them. Little-endian int32: for each case E, then rows of each expert, to the end
// of the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"

namespace megaflux::bench {

using CaseCounts = std::vector<std::vector<int64_t>>;

inline void write_case_file(const std::filesystem::path& file, const CaseCounts& cases) {
  std::ofstream out(file, std::ios::binary);
  const auto put = [&out](int64_t value) {
    MF_CHECK(value >= 0 && value <= INT32_MAX, "case file: ", value, " does not fit 31 bits");
    const auto word = static_cast<int32_t>(value);
    out.write(reinterpret_cast<const char*>(&word), sizeof(word));
  };
  for (const std::vector<int64_t>& counts : cases) {
    put(static_cast<int64_t>(counts.size()));
    for (const int64_t count : counts) put(count);
  }
  MF_CHECK(out.flush().good(), file.string(), ": cannot be written");
}

// Throws kBadInput naming the file if it is not there or ends too early.
inline CaseCounts read_case_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  MF_CHECK(in.good(), file.string(), ": cannot be read");
  const auto get = [&in] {
    int32_t word = 0;
    in.read(reinterpret_cast<char*>(&word), sizeof(word));
    return word;
  };
  CaseCounts cases;
  for (int32_t experts = get(); in.good(); experts = get()) {
    MF_CHECK(experts >= 1 && experts <= kMaxExperts, file.string(), ": a case of ", experts,
             " experts");
    std::vector<int64_t>& counts = cases.emplace_back(experts);
    for (int64_t& count : counts) count = get();
    MF_CHECK(in.good(), file.string(), ": ends inside a case");
  }
  return cases;
}

}  // namespace megaflux::bench
