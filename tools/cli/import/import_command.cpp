// `megaflux import`: a recording of another system in, a trace out.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>

#include "cli/command.h"
#include "cli/distinct_files.h"
#include "cli/import/layer_list.h"
#include "cli/json_output.h"
#include "cli/option_names.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "cli/text_format.h"
#include "convert/import.h"
#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"
#include "megaflux/trace/deflate.h"
#include "megaflux/trace/trace_file.h"
#include "simulate/case_sampler.h"

namespace megaflux::cli {
namespace {

struct ImportCommand {
  std::string input;
  std::string output;
  std::string format = "auto";
  std::string kind = "auto";
  std::string layers;
  convert::ImportSettings settings;
  bool is_deflated = false;
  std::string json_target;
};

// Rows of all steps and layers.
int64_t rows_of(const Trace& trace) {
  const TraceData& data = trace.data();
  if (!data.has_ids()) return std::accumulate(data.loads.begin(), data.loads.end(), int64_t{0});
  return std::count_if(data.topk_ids.begin(), data.topk_ids.end(),
                       [](int16_t id) { return id >= 0; });
}

int64_t tokens_of(const Trace& trace) {
  return trace.has_ids() ? trace.data().step_offsets.back() : 0;
}

Json import_json(const ImportCommand& command, const convert::Import& import,
                 const std::vector<std::string>& files) {
  const TraceMeta& meta = import.trace.meta();
  return {{"schema", "megaflux.import/1"},
          {"version", MF_VERSION},
          {"input", command.input},
          {"files", files.size()},
          {"read_as", import.read_as},
          {"output", command.output},
          {"bytes", std::filesystem::file_size(command.output)},
          {"num_steps", import.trace.num_steps()},
          {"layers", meta.layers},
          {"num_experts", meta.num_experts},
          {"topk", meta.topk},
          {"num_ranks", meta.num_ranks},
          {"has_sources", meta.num_ranks > 1 && import.trace.data().load_ranks != 1},
          {"has_realised_rows", !import.trace.data().realised_rows.empty()},
          {"tokens", import.trace.has_ids() ? Json(tokens_of(import.trace)) : Json()},
          {"rows", rows_of(import.trace)},
          {"time_ordered", meta.time_ordered},
          {"notes", import.notes}};
}

void print_import(const ImportCommand& command, const convert::Import& import) {
  const TextStyle style = style_of(STDOUT_FILENO);
  const TraceMeta& meta = import.trace.meta();
  const std::string topk = meta.topk > 0 ? std::to_string(meta.topk) : "not stated";
  fmt::print("{} {} {}\n", printable(command.input), arrow(style),
             paint(style, Colour::kBold, printable(command.output)));
  fmt::print("  read as     {}\n", import.read_as);
  fmt::print("  holds       {} x {} of {} experts, top-k {}\n",
             plural(import.trace.num_steps(), "step"), plural(import.trace.num_layers(), "layer"),
             meta.num_experts, topk);
  fmt::print("  rows        {}{}\n", count_text(rows_of(import.trace)),
             import.trace.has_ids()
                 ? fmt::format(" of {} tokens", count_text(tokens_of(import.trace)))
                 : "");
  fmt::print("  bytes       {}\n", bytes_text(std::filesystem::file_size(command.output)));
  for (const std::string& note : import.notes) {
    fmt::print("  {} {}\n", paint(style, Colour::kYellow, "note:"), printable(note));
  }
}

ExitCode run_import(ImportCommand command) {
  check_output("--json", command.json_target);
  check_output("-o", command.output);
  MF_CHECK(simulate::is_trace_path(command.output), "-o: ", command.output,
           ": the name of a trace ends in .npz");
  MF_CHECK(!command.is_deflated || deflate_available(),
           "--deflate: this build has no libzip, which packs");
  command.settings.format = convert::parse_format(command.format);
  command.settings.kind = convert::parse_kind(command.kind);
  if (!command.layers.empty()) {
    command.settings.layers = parse_layer_list("--layers", command.layers);
  }
  const std::vector<std::string> files =
      naming_argument("FILE", [&] { return convert::recording_files(command.input); });
  std::vector<NamedFile> inputs = {{"FILE", command.input}};
  for (const std::string& file : files) inputs.push_back({"FILE", file});
  check_distinct({{"-o", command.output}, {"--json", command.json_target}}, inputs);
  const auto import = [&] {
    Progress progress(static_cast<int>(files.size()) + 1);
    const auto at_file = [&](size_t i) {
      progress.step(static_cast<int>(i), "reading " + files[i]);
    };
    auto result = naming_argument(
        "FILE", [&] { return convert::import_recording(files, command.settings, at_file); });
    progress.step(static_cast<int>(files.size()), "writing " + command.output);
    naming_argument("-o", [&] {
      write_trace(command.output, result.trace,
                  command.is_deflated ? TracePacking::kDeflated : TracePacking::kStored);
    });
    return result;
  }();
  if (!is_stdout(command.json_target)) print_import(command, import);
  if (!command.json_target.empty()) {
    write_json(command.json_target, import_json(command, import, files));
  }
  return ExitCode::kOk;
}

void add_text(CLI::App& app, const std::string& name, std::string& value, const std::string& help) {
  app.add_option(name, value, help)->type_name("TEXT")->group("What the trace says of itself");
}

}  // namespace

void add_import_command(CLI::App& app, Invocation& invocation) {
  auto command = std::make_shared<ImportCommand>();
  convert::ImportSettings& settings = command->settings;
  CLI::App* importing = app.add_subcommand(
      "import", "A recording of UltraEP, SGLang or vLLM, an array or a table, as a trace.");
  importing
      ->add_option("FILE", command->input,
                   "UltraEP manifest or chunk, JSON or .npz of SGLang or vLLM, .npy, CSV")
      ->required();
  add_file(*importing, "-o,--output", command->output, "the trace to write, .npz")->required();
  add_json(*importing, command->json_target);
  add_choice(*importing, "--format", command->format,
             {"auto", "ultraep", "sglang", "vllm", "npy", "csv"}, "who wrote FILE");
  add_choice(*importing, "--kind", command->kind, {"auto", "counts", "counts-by-source", "topk"},
             "what an array without a name holds; auto asks if the numbers do not tell");
  importing->add_flag("--deflate", command->is_deflated,
                      "pack the trace; smaller, and builds without libzip cannot read it");
  add_integer(*importing, "--num-experts", settings.num_experts, {1, kMaxExperts},
              "experts of a layer")
      ->default_str("as in FILE");
  add_integer(*importing, "--topk", settings.topk, {1, kMaxTopk}, "experts a token")
      ->default_str("as in FILE");
  add_integer(*importing, "--step-tokens", settings.step_tokens, {1, INT32_MAX},
              "tokens of a step, for ids without steps")
      ->default_str("all");
  importing->add_option("--layers", command->layers, "model layers, for example 3-77 or 0,7,15")
      ->type_name("LAYERS");
  add_text(*importing, "--model-name", settings.model, "model that was recorded");
  add_text(*importing, "--origin", settings.origin, "where the recording is from");
  add_text(*importing, "--licence", settings.licence, "licence of the recording");
  importing->add_flag("--time-ordered", settings.is_time_ordered, "steps follow each other in time")
      ->group("What the trace says of itself");
  importing->footer(
      "Example: megaflux import traces/epg0_gr0_r0_1.manifest.json -o run.npz --topk 8\n"
      "         megaflux import ids.npy --kind topk --layers 3-77 -o run.npz");
  importing->callback(
      [command, &invocation] { invocation.action = [command] { return run_import(*command); }; });
}

}  // namespace megaflux::cli
