// `megaflux export`: a trace in, the files of another system's viewer out.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/distinct_files.h"
#include "cli/json_output.h"
#include "cli/load_input.h"
#include "cli/options.h"
#include "cli/plan/plan_options.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "cli/text_format.h"
#include "convert/ultraep_export.h"
#include "megaflux/base/check.h"
#include "megaflux/moe/owner_table.h"

namespace megaflux::cli {
namespace {

constexpr const char* kRanks = "--ranks";

struct ExportCommand {
  std::string trace;
  std::string prefix;
  std::string format = "ultraep";
  PlanOptions plan;
  std::string json_target;
  bool is_ranks_given = false;
  std::string option_without_planner;  // one that was given and that only a planner reads
};

// What post_physical_loads are.
struct Post {
  std::string made_by;  // "recorded", "fixed" or the planner
  convert::UltraEpDims dims;
  convert::FillPlaces fill;
};

Post recorded_post(const Trace& trace, int32_t num_ranks) {
  MF_CHECK(num_ranks == trace.meta().num_ranks, kRanks, ": ", num_ranks,
           ", the instances of the trace are of ", trace.meta().num_ranks,
           " ranks; --planner plans anew");
  Post post{
      .made_by = "recorded",
      .dims = convert::ultraep_dims(trace, num_ranks, convert::RecordedPlaces::slots_of(trace)),
      .fill = {}};
  const auto places = std::make_shared<convert::RecordedPlaces>(trace, post.dims);
  post.fill = [places](int64_t step, int32_t layer_idx, const LoadTable& loads,
                       std::span<int32_t> out) { places->fill(step, layer_idx, loads, out); };
  return post;
}

// UltraEP's layout keeps experts with their owners and has --slots slots a rank.
void check_plan_fits(const Plan& plan, const convert::UltraEpDims& dims,
                     const std::string& planner) {
  const auto owners = contiguous_owners(dims.num_experts, dims.num_ranks);
  MF_CHECK(std::equal(owners.begin(), owners.end(), plan.owner_of().begin()),
           "--planner: ", planner,
           " moves owners, UltraEP's layout keeps every expert where it is");
  MF_CHECK(plan.dims().replica_slots <= dims.slots, "--slots: ", dims.slots, ", ", planner,
           " needs ", plan.dims().replica_slots);
}

Post planned_post(const Trace& trace, const PlanOptions& options) {
  struct State {
    std::unique_ptr<Planner> planner;
    Plan plan;
    PlanReport report;
  };
  const auto state = std::make_shared<State>();
  state->planner =
      make_planner(plan_config_of(options, trace.meta().num_experts, trace.meta().topk));
  Post post{.made_by = options.planner,
            .dims = convert::ultraep_dims(trace, options.num_ranks, options.replica_slots),
            .fill = {}};
  post.fill = [state, dims = post.dims, name = options.planner](
                  int64_t, int32_t, const LoadTable& loads, std::span<int32_t> out) {
    state->planner->plan(loads, {}, state->plan, state->report);
    check_plan_fits(state->plan, dims, name);
    convert::plan_places(dims, state->plan, loads, out);
  };
  return post;
}

Post fixed_post(const Trace& trace, int32_t num_ranks) {
  const auto dims = convert::ultraep_dims(trace, num_ranks, 0);
  return {.made_by = "fixed",
          .dims = dims,
          .fill = [dims](int64_t, int32_t, const LoadTable& loads, std::span<int32_t> out) {
            convert::fixed_places(dims, loads, out);
          }};
}

Post post_of(const Trace& trace, ExportCommand& command) {
  PlanOptions& plan = command.plan;
  if (!command.is_ranks_given && trace.meta().num_ranks > 1) {
    plan.num_ranks = trace.meta().num_ranks;
  }
  if (plan.is_planner_given) return planned_post(trace, plan);
  MF_CHECK(command.option_without_planner.empty(), command.option_without_planner,
           ": read with --planner only, which is not given");
  return trace.data().instances.empty() ? fixed_post(trace, plan.num_ranks)
                                        : recorded_post(trace, plan.num_ranks);
}

ExitCode run_export(ExportCommand command) {
  check_output("--json", command.json_target);
  check_output("-o", command.prefix + std::string(convert::kManifestSuffix));
  check_distinct({{"-o", command.prefix + std::string(convert::kManifestSuffix)},
                  {"--json", command.json_target}},
                 {{"TRACE", command.trace}});
  check_plan_options(command.plan);
  const std::string name = std::filesystem::path(command.prefix).filename().string();
  MF_CHECK(!name.empty(), "-o: ", command.prefix, " names a folder; the files begin with it");
  const Trace trace = open_trace("TRACE", command.trace);
  const Post post = post_of(trace, command);
  const convert::UltraEpWriter writer(trace, post.dims, name, post.fill);
  for (int64_t chunk = 0; chunk < writer.num_chunks(); ++chunk) {
    check_distinct(
        {{"-o", convert::chunk_name(command.prefix, chunk)}, {"--json", command.json_target}},
        {{"TRACE", command.trace}});
  }
  {
    Progress progress(static_cast<int>(writer.num_chunks()));
    convert::write_ultraep("-o", writer, command.prefix, [&](int64_t chunk) {
      progress.step(static_cast<int>(chunk), convert::chunk_name(name, chunk));
    });
  }
  const int64_t records = trace.num_steps() * trace.num_layers();
  if (!is_stdout(command.json_target)) {
    const TextStyle style = style_of(STDOUT_FILENO);
    fmt::print("{} {} {}{}\n", printable(command.trace), arrow(style),
               paint(style, Colour::kBold, printable(command.prefix)), convert::kManifestSuffix);
    fmt::print("  holds       {} in {}, {}, {} a rank\n", plural(records, "record"),
               plural(writer.num_chunks(), "chunk"), plural(post.dims.num_ranks, "rank"),
               plural(post.dims.slots, "slot"));
    fmt::print("  after       {}\n", post.made_by);
    fmt::print("  to look at  python3 -m ultra_ep.load_viewer --path FOLDER\n");
  }
  if (!command.json_target.empty()) {
    write_json(command.json_target, {{"schema", "megaflux.export/1"},
                                     {"version", MF_VERSION},
                                     {"trace", command.trace},
                                     {"format", command.format},
                                     {"prefix", command.prefix},
                                     {"chunks", writer.num_chunks()},
                                     {"records", records},
                                     {"num_ranks", post.dims.num_ranks},
                                     {"replica_slots", post.dims.slots},
                                     {"post", post.made_by}});
  }
  return ExitCode::kOk;
}

// The first planner option that was given, other than --ranks and --planner.
std::string given_planner_option(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    const bool is_planner_option = option->get_group() != "Options" && name != kRanks;
    if (is_planner_option && name != "--planner" && option->count() > 0) return name;
  }
  return {};
}

}  // namespace

void add_export_command(CLI::App& app, Invocation& invocation) {
  auto command = std::make_shared<ExportCommand>();
  CLI::App* exporting =
      app.add_subcommand("export", "A trace as files that UltraEP's viewer opens.");
  exporting->add_option("TRACE", command->trace, "a trace (.npz)")->required();
  add_file(*exporting, "-o,--output", command->prefix,
           "PREFIX of the files: PREFIX.manifest.json, PREFIX.chunk000000.npz, ...")
      ->type_name("PREFIX")
      ->required();
  add_json(*exporting, command->json_target);
  add_choice(*exporting, "--format", command->format, {"ultraep"}, "whose files");
  add_planner_options(*exporting, command->plan);
  exporting->get_option(kRanks)->default_str("as recorded, else 8");
  exporting->get_option("--planner")->default_str("none: as recorded, else fixed");
  exporting->footer(
      "Example: megaflux export run.npz --ranks 8 --slots 2 --planner megaflux -o out/run");
  exporting->callback([command, exporting, &invocation] {
    command->is_ranks_given = exporting->count(kRanks) > 0;
    command->option_without_planner = given_planner_option(*exporting);
    invocation.action = [command] { return run_export(*command); };
  });
}

}  // namespace megaflux::cli
