// `megaflux report`: traces in, one html file out.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/json_output.h"
#include "cli/load_input.h"
#include "cli/progress.h"
#include "cli/report/report_options.h"
#include "cli/report/report_summary.h"
#include "viewer/cell_reader.h"
#include "viewer/report_file.h"

namespace megaflux::cli {
namespace {

std::string command_line(const std::vector<std::string>& arguments) {
  return fmt::format("megaflux {}", fmt::join(arguments.begin() + 1, arguments.end(), " "));
}

// One trace at a time is in memory; what stays are its columns.
viewer::TraceReport report_file(const ReportOptions& options, const std::string& file,
                                size_t num_traces, viewer::ArrayBlob& blob) {
  const std::string name = std::filesystem::path(file).filename().string();
  auto reading = std::make_unique<Progress>(1);
  reading->step(0, "reading " + name);
  const Trace trace = open_trace("TRACE", file);
  reading.reset();
  viewer::ReportSetting setting = report_setting_of(options, file, trace, num_traces);
  Progress progress(static_cast<int>(std::min(viewer::num_cells(trace), viewer::kMaxCells)));
  setting.progress = [&](const char* what, int64_t done, int64_t) {
    progress.step(static_cast<int>(done), std::string(what) + " " + name);
  };
  return viewer::report_trace(trace, setting, blob);
}

ExitCode run_report(const ReportOptions& options, const std::vector<std::string>& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<std::string> files = check_report_options(options);
  ReportSummary summary;
  summary.output = options.output;
  viewer::ArrayBlob blob;
  viewer::Json traces = viewer::Json::array();
  for (const std::string& file : files) {
    viewer::TraceReport report = report_file(options, file, files.size(), blob);
    summary.traces.push_back({report.json["name"], report.json["setting"], report.overview});
    traces.push_back(std::move(report.json));
  }
  const viewer::Json meta = {{"schema", viewer::kReportSchema},
                             {"version", MF_VERSION},
                             {"command", command_line(arguments)},
                             {"traces", std::move(traces)}};
  summary.bytes =
      viewer::write_report_file("-o", options.output, viewer::page_source(), meta, blob);
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!is_stdout(options.json_target)) print_summary(summary);
  write_json(options.json_target, summary_json(summary));
  return ExitCode::kOk;
}

}  // namespace

void add_report_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* report = app.add_subcommand(
      "report", "One html file that shows what a planner does to every step and layer of a trace.");
  add_report_options(*report, *options);
  report->footer(
      "Example: megaflux report data/esft_law.npz -o report.html\n"
      "         megaflux report before.npz after.npz -o both.html --ranks 64 --model dsv3");
  report->callback([options, &invocation] {
    invocation.action = [options, arguments = invocation.arguments] {
      return run_report(*options, arguments);
    };
  });
}

}  // namespace megaflux::cli
