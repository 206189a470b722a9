#include "optimum/optima_table.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "megaflux/base/check.h"
#include "megaflux/base/hash.h"

namespace megaflux::optimum {

std::string problem_hash(const OptimumCase& c) {
  const PlanConfig& config = c.config;
  Hasher hasher;
  for (const int32_t value : {config.dims.num_experts, config.dims.num_ranks,
                              config.dims.replica_slots, config.dims.block_rows}) {
    hasher.add(static_cast<uint32_t>(value));
  }
  hasher.add_span<int32_t>(config.owner_of);
  hasher.add_span<int32_t>(config.domain_of);
  hasher.add_span<uint8_t>(config.active);
  hasher.add_span<int32_t>(config.base_blocks);
  hasher.add_span<uint16_t>(config.speed);
  hasher.add_span<int32_t>(c.loads.totals());
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hasher.value()));
  return digits;
}

std::string to_line(const KnownOptimum& known) {
  std::ostringstream line;
  line << known.hash << ',' << known.bound << ',' << known.bounds.lower << ',' << known.bounds.upper
       << ",\"" << known.name << '"';
  return line.str();
}

std::vector<KnownOptimum> read_optima(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  MF_CHECK(std::getline(in, line) && line == kOptimaHeader, path, ": does not begin with ",
           kOptimaHeader);
  std::vector<KnownOptimum> optima;
  while (std::getline(in, line)) {
    char hash[17], name[256];
    long bound = 0, lower = 0, upper = 0;
    MF_CHECK(std::sscanf(line.c_str(), "%16[0-9a-f],%ld,%ld,%ld,\"%255[^\"]\"", hash, &bound,
                         &lower, &upper, name) == 5,
             path, ": line ", optima.size() + 2, " is not ", kOptimaHeader);
    optima.push_back({hash, bound, {lower, upper}, name});
  }
  return optima;
}

int64_t good_finish(int64_t optimum) {
  return optimum + std::max<int64_t>(1, optimum / 200);
}

}  // namespace megaflux::optimum
