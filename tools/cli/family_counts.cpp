#include "cli/family_counts.h"

#include <map>

#include "cli/data_folder.h"
#include "cli/load_input.h"
#include "megaflux/base/check.h"
#include "megaflux/trace/route_file.h"

namespace megaflux::cli {

std::vector<int32_t> family_counts(const std::string& route, int32_t num_experts,
                                   std::string path) {
  static const std::map<int32_t, const char*> kFiles = {{256, "glm52_prefill_counts.npz"},
                                                        {128, "qwen3_30b_a3b_decode_counts.npz"},
                                                        {64, "olmoe_lens_counts.npz"}};
  if (path.empty()) {
    const auto file = kFiles.find(num_experts);
    MF_CHECK(file != kFiles.end(), "--experts: ", num_experts, " has no recorded counts for ",
             "--route ", route, ", 64, 128 and 256 have; or name a trace with --trace");
    path = data_folder() + "/" + file->second;
  }
  const Trace trace = open_trace("--trace", path);
  MF_CHECK(trace.meta().num_experts == num_experts, "--experts: ", num_experts,
           " differs from the ", trace.meta().num_experts, " of ", path);
  return recorded_counts(trace);
}

}  // namespace megaflux::cli
