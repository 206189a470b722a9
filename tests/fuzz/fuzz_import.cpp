// Recordings of other systems, one function a format. The settings come from the last byte, so that
// kinds and limits are reached as well.
#include <numeric>

#include "convert/import.h"
#include "fuzz/fuzz_harness.h"

namespace megaflux::fuzz {
namespace {

using convert::Format;
using convert::ImportSettings;
using convert::Kind;

ImportSettings settings_of(std::byte byte, Format format) {
  const auto bits = std::to_integer<uint32_t>(byte);
  ImportSettings settings{.format = format};
  settings.kind = static_cast<Kind>(bits & 3);
  if (bits & 4) settings.num_experts = 8;
  if (bits & 8) settings.topk = 2;
  if (bits & 16) settings.step_tokens = 3;
  if (bits & 32) settings.layers = {4, 9};
  return settings;
}

void import_as(Bytes bytes, Format format) {
  if (bytes.empty()) return;
  const ImportSettings settings = settings_of(bytes.back(), format);
  accept_refusal([&] {
    const auto import = convert::import_bytes(bytes.first(bytes.size() - 1), settings, "fuzz");
    const Trace& trace = import.trace;
    require(trace.num_steps() >= 1 && !import.read_as.empty(), "an import holds a step");
    const LoadTable loads = trace.loads(trace.num_steps() - 1, trace.num_layers() - 1, 2);
    require(loads.num_experts() == trace.meta().num_experts, "E of the loads");
    require(settings.num_experts == 0 || trace.meta().num_experts == settings.num_experts,
            "--num-experts holds");
    require(settings.topk == 0 || trace.meta().topk == settings.topk, "--topk holds");
    require(settings.layers.empty() || trace.meta().layers == settings.layers, "--layers holds");
  });
}

}  // namespace

void fuzz_import_npy(Bytes bytes) {
  import_as(bytes, Format::kNpy);
}
void fuzz_import_csv(Bytes bytes) {
  import_as(bytes, Format::kCsv);
}
// SGLang's, vLLM's, and whichever the names say.
void fuzz_import_json(Bytes bytes) {
  import_as(bytes, Format::kAuto);
  import_as(bytes, Format::kSglang);
  import_as(bytes, Format::kVllm);
}
// Chunks of UltraEP and named arrays.
void fuzz_import_npz(Bytes bytes) {
  import_as(bytes, Format::kAuto);
}

}  // namespace megaflux::fuzz
