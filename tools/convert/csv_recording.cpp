#include "convert/csv_recording.h"

#include <algorithm>
#include <array>
#include <optional>

#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"
#include "megaflux/trace/csv_text.h"

namespace megaflux::convert {
namespace {

enum Column : uint8_t { kStep, kLayer, kExpert, kSource, kCount, kNumColumns };

struct ColumnName {
  std::string_view name;
  Column column;
};
constexpr std::array<ColumnName, 8> kColumnNames = {{{"step", kStep},
                                                     {"layer", kLayer},
                                                     {"expert", kExpert},
                                                     {"source", kSource},
                                                     {"rank", kSource},
                                                     {"count", kCount},
                                                     {"rows", kCount},
                                                     {"tokens", kCount}}};
constexpr std::string_view kLongForm = "step,layer,expert[,source],count";

// One line of the long form, by Column.
using LongLine = std::array<int32_t, kNumColumns>;

bool is_header(std::string_view content) {
  return !content.empty() && ((content.front() >= 'a' && content.front() <= 'z') ||
                              (content.front() >= 'A' && content.front() <= 'Z'));
}

// The column of each field of the header.
std::vector<Column> parse_header(std::string_view content, const std::string& name) {
  std::vector<Column> columns;
  while (!content.empty()) {
    const std::string_view field = next_csv_field(content);
    const auto known = std::find_if(kColumnNames.begin(), kColumnNames.end(),
                                    [&](const ColumnName& entry) { return entry.name == field; });
    MF_CHECK(known != kColumnNames.end(), name, ": column '", shown_value(field),
             "' is unknown; a header ", kLongForm, " or lines of numbers expected");
    MF_CHECK(std::find(columns.begin(), columns.end(), known->column) == columns.end(), name,
             ": column '", field, "' stands twice in the header");
    columns.push_back(known->column);
  }
  for (const Column needed : {kStep, kLayer, kExpert, kCount}) {
    MF_CHECK(std::find(columns.begin(), columns.end(), needed) != columns.end(), name,
             ": the header lacks a column; ", kLongForm, " expected");
  }
  return columns;
}

LongLine parse_long_line(const CsvLines& lines, const std::vector<Column>& columns,
                         const std::string& name) {
  LongLine line{};
  std::string_view rest = lines.content();
  size_t fields = 0;
  while (!rest.empty() || fields == 0) {
    MF_CHECK(fields < columns.size(), name, ": line ", lines.number(), ": more than the ",
             columns.size(), " columns of the header");
    const std::string_view field = next_csv_field(rest);
    const Column column = columns[fields++];
    const int64_t value = parse_csv_count(field, name, lines.number(), fields);
    const int64_t limit = column == kExpert   ? kMaxExperts - 1
                          : column == kSource ? kMaxRanks - 1
                                              : kMaxCsvCount;
    MF_CHECK(value <= limit, name, ": line ", lines.number(), ", column ", fields, ": ", value,
             " is outside [0, ", limit, "]");
    line[column] = static_cast<int32_t>(value);
  }
  MF_CHECK(fields == columns.size(), name, ": line ", lines.number(), ": ", fields,
           " columns, the ", "header has ", columns.size());
  return line;
}

std::vector<int32_t> distinct_values(const std::vector<LongLine>& lines, Column column) {
  std::vector<int32_t> values;
  values.reserve(lines.size());
  for (const LongLine& line : lines) values.push_back(line[column]);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

int64_t extent_of(const std::vector<LongLine>& lines, Column column) {
  int32_t largest = 0;
  for (const LongLine& line : lines) largest = std::max(largest, line[column]);
  return int64_t{largest} + 1;
}

int64_t position(const std::vector<int32_t>& sorted, int32_t value) {
  return std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
}

Recording dense_recording(std::vector<LongLine> lines, const ImportSettings& settings,
                          bool has_sources, const std::string& name) {
  MF_CHECK(!lines.empty(), name, ": no line after the header");
  const auto cell_of = [](const LongLine& line) {
    return std::array{line[kStep], line[kLayer], line[kSource], line[kExpert]};
  };
  std::sort(lines.begin(), lines.end(),
            [&](const LongLine& a, const LongLine& b) { return cell_of(a) < cell_of(b); });
  const auto twice = std::adjacent_find(
      lines.begin(), lines.end(),
      [&](const LongLine& a, const LongLine& b) { return cell_of(a) == cell_of(b); });
  if (twice != lines.end()) {
    const LongLine& line = *twice;
    throw_error(ErrorCode::kBadInput, name, ": step ", line[kStep], ", layer ", line[kLayer],
                ", expert ", line[kExpert], ", source ", line[kSource], " stands twice");
  }
  const auto steps = distinct_values(lines, kStep);
  const auto layers = distinct_values(lines, kLayer);
  const int64_t largest = extent_of(lines, kExpert);
  MF_CHECK(settings.num_experts == 0 || settings.num_experts >= largest, name, ": expert ",
           largest - 1, " is there, --num-experts ", settings.num_experts, " given");
  NumberArray counts{.shape = {static_cast<int64_t>(steps.size()),
                               static_cast<int64_t>(layers.size()), extent_of(lines, kSource),
                               settings.num_experts > 0 ? settings.num_experts : largest},
                     .values = {}};
  const int64_t cells = checked_elements(counts.shape, name);
  const int64_t limit =
      std::max<int64_t>(int64_t{1} << 20, 1024 * static_cast<int64_t>(lines.size()));
  MF_CHECK(cells <= limit, name, ": ", lines.size(), " lines name a table of ",
           shape_text(counts.shape), ", at most ", limit, " cells are made of them");
  counts.values.resize(cells);
  for (const LongLine& line : lines) {
    const int64_t cell =
        position(steps, line[kStep]) * counts.shape[1] + position(layers, line[kLayer]);
    counts.values[(cell * counts.shape[2] + line[kSource]) * counts.shape[3] + line[kExpert]] =
        line[kCount];
  }
  Recording recording = counts_recording(std::move(counts), Kind::kCountsBySource, name);
  recording.data.meta.layers = layers;
  if (has_sources && recording.data.meta.num_ranks == 1) {
    recording.notes.push_back("all rows are of source 0, so the sources count as unknown");
  }
  return recording;
}

Recording totals_recording(CsvLines& lines, const ImportSettings& settings,
                           const std::string& name) {
  const auto layers = static_cast<int64_t>(std::max<size_t>(settings.layers.size(), 1));
  NumberArray counts{.shape = {0, layers, 0}, .values = {}};
  int64_t num_lines = 0;
  do {
    std::string_view rest = lines.content();
    int64_t fields = 0;
    while (!rest.empty() || fields == 0) {
      MF_CHECK(fields < kMaxExperts, name, ": line ", lines.number(), ": more than ", kMaxExperts,
               " columns");
      const std::string_view field = next_csv_field(rest);
      counts.values.push_back(static_cast<int32_t>(
          parse_csv_count(field, name, lines.number(), static_cast<size_t>(++fields))));
    }
    if (num_lines++ == 0) counts.shape[2] = fields;
    MF_CHECK(fields == counts.shape[2], name, ": line ", lines.number(), ": ", fields,
             " columns, the first line has ", counts.shape[2]);
  } while (lines.next());
  MF_CHECK(num_lines % layers == 0, name, ": ", num_lines, " lines of totals, a multiple of the ",
           layers, " layers of --layers expected");
  counts.shape[0] = num_lines / layers;
  return counts_recording(std::move(counts), Kind::kCounts, name);
}

}  // namespace

Recording csv_recording(std::string_view text, const ImportSettings& settings,
                        const std::string& name) {
  MF_CHECK(text.size() <= kMaxCsvRecordingBytes, name, ": ", text.size(), " bytes, at most ",
           kMaxCsvRecordingBytes, " are read");
  CsvLines lines(text, name);
  MF_CHECK(lines.next(), name, ": no numbers in the file");
  MF_CHECK(settings.kind != Kind::kTopk, name, ": --kind topk, and text holds counts");
  if (!is_header(lines.content())) return totals_recording(lines, settings, name);
  const std::vector<Column> columns = parse_header(lines.content(), name);
  const bool has_sources = std::find(columns.begin(), columns.end(), kSource) != columns.end();
  std::vector<LongLine> long_lines;
  while (lines.next()) long_lines.push_back(parse_long_line(lines, columns, name));
  return dense_recording(std::move(long_lines), settings, has_sources, name);
}

}  // namespace megaflux::convert
