#include "cli/report/report_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <thread>

#include "cli/distinct_files.h"
#include "cli/json_output.h"
#include "cli/plan/plan_tables.h"
#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"
#include "megaflux/moe/owner_table.h"
#include "simulate/case_sampler.h"

namespace megaflux::cli {
namespace {

namespace fs = std::filesystem;

// Deflated, all traces together: 6 MB in base64, which leaves 9 MB for the cells and the page.
constexpr int64_t kDetailBytes = 4'500'000;
constexpr int64_t kMaxWhatIfRows = 400;

// Ascending.
std::vector<int32_t> parse_list(const char* option, const std::string& text, Limits limits) {
  const std::vector<int64_t> values = parse_integers(option, text, limits);
  std::vector<int32_t> list(values.begin(), values.end());
  std::sort(list.begin(), list.end());
  return list;
}

std::vector<int32_t> what_if_ranks(const ReportOptions& options, int32_t num_experts) {
  const int32_t num_ranks = options.plan.num_ranks;
  if (!options.what_if_ranks.empty()) {
    return parse_list("--what-if-ranks", options.what_if_ranks, {1, kMaxRanks});
  }
  std::vector<int32_t> ranks;
  for (const int32_t wanted : {num_ranks / 2, num_ranks, num_ranks * 2}) {
    // A rank that owns nothing, or one alone, has nothing to balance.
    const bool is_useful = wanted >= 2 && wanted <= std::min(num_experts, kMaxRanks);
    if (wanted == num_ranks || is_useful) ranks.push_back(wanted);
  }
  return ranks;
}

std::vector<int32_t> what_if_slots(const ReportOptions& options) {
  const int32_t own = options.plan.replica_slots;
  auto slots = parse_list("--what-if-slots", options.what_if_slots, {0, kMaxReplicaSlots});
  const auto place = std::lower_bound(slots.begin(), slots.end(), own);
  if (place == slots.end() || *place != own) slots.insert(place, own);
  return slots;
}

viewer::CellPlace parse_place(const std::string& text) {
  const size_t colon = text.find(':');
  MF_CHECK(colon != std::string::npos, "--detail: '", text,
           "' is no LAYER:STEP, two integers with a colon in between");
  viewer::CellPlace place;
  place.layer_idx =
      static_cast<int32_t>(parse_integer("--detail", text.substr(0, colon), {0, INT32_MAX}));
  place.step = parse_integer("--detail", text.substr(colon + 1), {0, INT32_MAX});
  return place;
}

PlanOptions with_model(const ReportOptions& options) {
  PlanOptions plan = options.plan;
  if (options.model.empty()) return plan;
  const simulate::ModelShape model = simulate::parse_model("--model", options.model);
  plan.hidden = model.hidden;
  plan.inter = model.inter;
  return plan;
}

void check_what_if(const ReportOptions& options) {
  const auto variants = simulate::parse_variants("--what-if-planners", options.what_if_planners);
  const size_t rows =
      variants.size() * what_if_ranks(options, kMaxExperts).size() * what_if_slots(options).size();
  MF_CHECK(rows <= kMaxWhatIfRows, "--what-if-ranks, --what-if-slots, --what-if-planners: ", rows,
           " rows of the what-if table, at most ", kMaxWhatIfRows, " are made");
  Choices planners = {options.plan.planner};
  for (const simulate::PlannerVariant& variant : variants) {
    planners.emplace_back(planner_name(variant.kind));
  }
  check_plan_options(options.plan, planners);
}

}  // namespace

void add_report_options(CLI::App& app, ReportOptions& options) {
  app.add_option("TRACE", options.traces,
                 "1 to 4 traces (.npz), or a folder of them; several are shown side by side")
      ->required();
  add_file(app, "-o,--output", options.output, "the report, an html file")->required();
  add_json(app, options.json_target);
  add_planner_options(app, options.plan);
  app.add_option("--model", options.model, "shape of the layer, for bytes and predicted times")
      ->type_name("NAME|H,I,K")
      ->group("Layer and machine");
  add_prediction_options(app, options.plan.passes, options.plan.machine);
  add_integer(app, "--rows-per-rank", options.rows_per_rank, {0, 1 << 24},
              "counts are scaled to this many rows a rank; 0 = as recorded");
  app.add_option("--what-if-planners", options.what_if_planners, "planners to compare")
      ->default_str("all")
      ->type_name("LIST")
      ->group("What-if table");
  app.add_option("--what-if-ranks", options.what_if_ranks,
                 "numbers of ranks; default: half of --ranks, as many, and twice as many")
      ->type_name("LIST")
      ->group("What-if table");
  app.add_option("--what-if-slots", options.what_if_slots, "slots a rank; --slots is always there")
      ->default_str(options.what_if_slots)
      ->type_name("LIST")
      ->group("What-if table");
  app.add_option("--detail", options.details,
                 "a cell to show in full besides those chosen: layer index and step, for example "
                 "18:3; may be given several times")
      ->type_name("L:S")
      ->allow_extra_args(false);
  add_integer(app, "--threads", options.num_threads, {0, kMaxReportThreads},
              "threads that plan; 0 = one a core");
  app.add_flag("--no-times", options.no_times,
               "leave the measured planner times out: equal input then gives equal bytes");
}

std::vector<std::string> check_report_options(const ReportOptions& options) {
  MF_CHECK(!is_stdout(options.output), "-o: - is standard output, a file is expected");
  check_output("-o", options.output);
  std::error_code ignored;
  // The finished file is put in the place of what is there, which must not be a device.
  MF_CHECK(!fs::exists(options.output, ignored) || fs::is_regular_file(options.output, ignored),
           "-o: ", options.output, " is no regular file");
  check_output("--json", options.json_target);
  const std::vector<std::string> files = simulate::trace_files(options.traces);
  MF_CHECK(files.size() <= kMaxReportTraces, "TRACE: ", files.size(), " traces, at most ",
           kMaxReportTraces, " fit side by side");
  std::vector<NamedFile> inputs;
  for (const std::string& file : files) inputs.push_back({"TRACE", file});
  check_distinct({{"-o", options.output}, {"--json", options.json_target}}, inputs);
  MF_CHECK(static_cast<int64_t>(options.details.size()) <= viewer::kMaxDetails,
           "--detail: ", options.details.size(), " given, at most ", viewer::kMaxDetails,
           " are shown");
  for (const std::string& place : options.details) parse_place(place);
  check_what_if(options);
  MF_CHECK(!options.model.empty() || options.plan.objective != "cost",
           "--objective: cost predicts time and needs --model");
  if (!options.model.empty()) simulate::parse_model("--model", options.model);
  return files;
}

viewer::ReportSetting report_setting_of(const ReportOptions& options, const std::string& file,
                                        const Trace& trace, size_t num_traces) {
  const TraceMeta& meta = trace.meta();
  const PlanOptions plan = with_model(options);
  viewer::ReportSetting setting;
  setting.name = fs::path(file).filename().string();
  setting.step.plan = plan_config_of(plan, meta.num_experts, meta.topk);
  MF_CHECK(setting.step.plan.baselines.history.empty(),
           "--rival: history is what report takes from the trace");
  setting.step.plan.owner_of = contiguous_owners(meta.num_experts, plan.num_ranks);
  if (!options.model.empty()) {
    setting.model = simulate::parse_model("--model", options.model);
    setting.step.shape = simulate::shape_for(*setting.model, meta.num_experts, meta.topk);
  }
  setting.machine = read_machine(plan.machine);
  setting.scope = scope_of(plan.passes, plan.objective);
  setting.rows_per_rank = options.rows_per_rank;
  setting.what_if = {
      .planners = simulate::parse_variants("--what-if-planners", options.what_if_planners),
      .ranks = what_if_ranks(options, meta.num_experts),
      .slots = what_if_slots(options)};
  for (const std::string& place : options.details) setting.asked.push_back(parse_place(place));
  setting.detail_bytes = kDetailBytes / static_cast<int64_t>(num_traces);
  const auto cores = static_cast<int32_t>(std::thread::hardware_concurrency());
  setting.num_threads = options.num_threads > 0 ? options.num_threads : std::max(1, cores);
  setting.has_times = !options.no_times;
  return setting;
}

}  // namespace megaflux::cli
