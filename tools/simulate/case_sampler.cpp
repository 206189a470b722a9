#include "simulate/case_sampler.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "megaflux/base/check.h"
#include "megaflux/base/math.h"
#include "megaflux/base/rng.h"
#include "megaflux/moe/scale_counts.h"

namespace megaflux::simulate {
namespace {

namespace fs = std::filesystem;

// Shares `totals` out over the sources of `loads`, expert by expert.
LoadTable with_sources(const LoadTable& loads, std::span<const int32_t> totals) {
  const int32_t num_ranks = loads.num_ranks(), num_experts = loads.num_experts();
  std::vector<int32_t> rows(static_cast<size_t>(num_ranks) * num_experts);
  std::vector<int32_t> column(num_ranks);
  for (int32_t e = 0; e < num_experts; ++e) {
    if (totals[e] == 0) continue;
    for (int32_t p = 0; p < num_ranks; ++p) column[p] = loads.rows(p, e);
    const std::vector<int32_t> shares = scale_counts(column, totals[e], totals[e]);
    for (int32_t p = 0; p < num_ranks; ++p) {
      rows[static_cast<size_t>(p) * num_experts + e] = shares[p];
    }
  }
  return {num_ranks, num_experts, rows};
}

}  // namespace

bool is_trace_path(const std::string& path) {
  return path.ends_with(".npz");
}

std::vector<std::string> trace_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      MF_CHECK(is_trace_path(path), "TRACE: ", path,
               " is no trace, a name that ends in .npz is expected");
      files.push_back(path);
      continue;
    }
    const size_t before = files.size();
    for (const auto& entry : fs::directory_iterator(path)) {
      if (is_trace_path(entry.path().string())) files.push_back(entry.path().string());
    }
    MF_CHECK(files.size() > before, "TRACE: ", path,
             ": 0 traces in this folder, at least 1 expected");
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

std::vector<int64_t> draw_places(int64_t count, int64_t wanted, uint64_t seed) {
  std::vector<int64_t> places(static_cast<size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  if (wanted >= count) return places;
  Rng rng(seed);
  for (int64_t i = 0; i < wanted; ++i) {
    std::swap(places[i], places[i + rng.below(static_cast<uint32_t>(count - i))]);
  }
  places.resize(static_cast<size_t>(wanted));
  std::sort(places.begin(), places.end());
  return places;
}

LoadTable scaled_loads(const LoadTable& loads, int32_t topk, int64_t rows_per_rank) {
  if (rows_per_rank == 0 || loads.total_rows() == 0) return loads;
  const int64_t total = rows_per_rank * loads.num_ranks();
  int64_t limit = topk > 0 ? ceil_div<int64_t>(total, topk) : total;
  const auto totals_before = loads.totals();
  const auto idle = std::count(totals_before.begin(), totals_before.end(), 0);
  // Ids twice in a token leave fewer experts with rows than a token has.
  limit = std::max(limit, ceil_div<int64_t>(total, loads.num_experts() - idle));
  const std::vector<int32_t> totals = scale_counts(totals_before, total, limit);
  if (loads.has_sources()) return with_sources(loads, totals);
  return LoadTable::from_totals(loads.num_ranks(),
                                std::vector<int64_t>(totals.begin(), totals.end()));
}

}  // namespace megaflux::simulate
