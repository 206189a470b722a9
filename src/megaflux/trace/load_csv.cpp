#include "megaflux/trace/load_csv.h"

#include <numeric>

#include "megaflux/base/check.h"
#include "megaflux/trace/csv_text.h"
#include "megaflux/trace/whole_file.h"

namespace megaflux {
namespace {

std::vector<int64_t> parse_line(std::string_view rest, std::string_view file_name, size_t line) {
  std::vector<int64_t> values;
  do {
    MF_CHECK(values.size() < kMaxCsvColumns, file_name, ": line ", line, ": more than ",
             kMaxCsvColumns, " columns");
    values.push_back(parse_csv_count(next_csv_field(rest), file_name, line, values.size() + 1));
  } while (!rest.empty());
  return values;
}

std::string_view text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::vector<std::vector<int64_t>> parse_csv(std::string_view text, std::string_view file_name) {
  MF_CHECK(text.size() <= kMaxCsvBytes, file_name, ": more than ", kMaxCsvBytes, " bytes");
  std::vector<std::vector<int64_t>> rows;
  for (CsvLines lines(text, file_name); lines.next();) {
    MF_CHECK(rows.size() < kMaxCsvLines, file_name, ": line ", lines.number(), ": more than ",
             kMaxCsvLines, " lines of numbers");
    rows.push_back(parse_line(lines.content(), file_name, lines.number()));
    MF_CHECK(rows.back().size() == rows.front().size(), file_name, ": line ", lines.number(), ": ",
             rows.back().size(), " columns, the first line has ", rows.front().size());
  }
  MF_CHECK(!rows.empty(), file_name, ": no numbers in the file");
  return rows;
}

std::vector<std::vector<int64_t>> read_csv(const std::string& path) {
  return parse_csv(text_of(read_whole_file(path, kMaxCsvBytes)), path);
}

LoadTable parse_load_csv(std::string_view text, std::string_view file_name, int32_t num_ranks) {
  const auto rows = parse_csv(text, file_name);
  int64_t sum = 0;
  for (const auto& row : rows) sum = std::accumulate(row.begin(), row.end(), sum);
  MF_CHECK(sum <= kMaxCsvCount, file_name, ": ", sum, " rows in the step, at most ", kMaxCsvCount,
           " are supported");
  if (rows.size() == 1 && num_ranks > 1) return LoadTable::from_totals(num_ranks, rows.front());
  MF_CHECK(static_cast<int64_t>(rows.size()) == num_ranks, file_name, ": ", rows.size(),
           " lines of numbers; 1 (totals) or ", num_ranks, " (one for each of ", num_ranks,
           " ranks) expected");
  std::vector<int32_t> counts;
  for (const auto& row : rows) {
    for (const int64_t value : row) counts.push_back(static_cast<int32_t>(value));
  }
  return {num_ranks, static_cast<int32_t>(rows.front().size()), counts};
}

LoadTable read_load_csv(const std::string& path, int32_t num_ranks) {
  return parse_load_csv(text_of(read_whole_file(path, kMaxCsvBytes)), path, num_ranks);
}

}  // namespace megaflux
