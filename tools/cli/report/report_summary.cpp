#include "cli/report/report_summary.h"

#include <fmt/format.h>
#include <unistd.h>

#include "cli/terminal.h"
#include "cli/text_format.h"

namespace megaflux::cli {
namespace {

using simulate::Distribution;

template <typename Number>
Json optional_json(const std::optional<Number>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json distribution_json(const Distribution& figures) {
  return {{"median", figures.median},
          {"p90", figures.p90},
          {"p99", figures.p99},
          {"max", figures.max},
          {"mean", figures.mean}};
}

std::string spread_text(const Distribution& figures) {
  return fmt::format("median {:.3f}, p90 {:.3f}, max {:.3f}", figures.median, figures.p90,
                     figures.max);
}

std::string time_text(double us) {
  return seconds_text(us / 1e6);
}

void print_trace(const TextStyle& style, const TraceSummary& trace) {
  const viewer::TraceOverview& overview = trace.overview;
  const auto number = [&](const char* key) { return trace.setting.at(key).get<int64_t>(); };
  fmt::print("\n{}: {} on {}, {} each, planner {}\n",
             paint(style, Colour::kBold, printable(trace.name)), plural(overview.num_cells, "cell"),
             plural(number("ranks"), "rank"), plural(number("slots"), "slot"),
             trace.setting.at("planner").get<std::string>());
  fmt::print("  imbalance without replicas  {}\n", spread_text(overview.imbalance_before));
  fmt::print("  imbalance with the plan     {}\n", spread_text(overview.imbalance_after));
  fmt::print("  copies                      {:.2f} a cell\n", overview.copies);
  if (overview.fixed_us) {
    fmt::print("  predicted time of a cell    {} {} {}, ideal {}\n", time_text(*overview.fixed_us),
               arrow(style), time_text(*overview.planned_us), time_text(*overview.ideal_us));
  }
  fmt::print("  full detail                 {}\n", overview.details_text);
  if (overview.best) {
    fmt::print("  best what-if setting        {}\n", viewer::what_if_label(*overview.best));
  }
}

}  // namespace

void print_summary(const ReportSummary& summary) {
  const TextStyle style = style_of(STDOUT_FILENO);
  for (const TraceSummary& trace : summary.traces) print_trace(style, trace);
  fmt::print("\n{}: {} in {}, opens in a browser from where it is\n",
             paint(style, Colour::kBold, printable(summary.output)), bytes_text(summary.bytes),
             seconds_text(summary.seconds));
}

Json summary_json(const ReportSummary& summary) {
  int64_t cells = 0, details = 0;
  Json traces = Json::array();
  for (const TraceSummary& trace : summary.traces) {
    const viewer::TraceOverview& overview = trace.overview;
    cells += overview.num_cells;
    details += overview.num_details;
    traces.push_back({{"name", trace.name},
                      {"setting", trace.setting},
                      {"cells", overview.num_cells},
                      {"details", overview.num_details},
                      {"chosen", overview.details_text},
                      {"imbalance_before", distribution_json(overview.imbalance_before)},
                      {"imbalance_after", distribution_json(overview.imbalance_after)},
                      {"mean_copies", overview.copies},
                      {"mean_fixed_us", optional_json(overview.fixed_us)},
                      {"mean_planned_us", optional_json(overview.planned_us)},
                      {"mean_ideal_us", optional_json(overview.ideal_us)},
                      {"best_what_if", overview.best ? Json(viewer::what_if_label(*overview.best))
                                                     : Json(nullptr)}});
  }
  return {{"schema", "megaflux.report-summary/1"},
          {"version", MF_VERSION},
          {"file", summary.output},
          {"bytes", summary.bytes},
          {"cells", cells},
          {"details", details},
          {"seconds", summary.seconds},
          {"traces", std::move(traces)}};
}

}  // namespace megaflux::cli
