#include "megaflux/trace/load_csv.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <numeric>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

constexpr int64_t kMaxCount = std::numeric_limits<int32_t>::max();
// What spreadsheets put before UTF-8 text.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kZipMark = "PK\x03\x04";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Cuts `rest` behind the first `separator`; returns what stood before it.
std::string_view next_piece(std::string_view& rest, char separator) {
  const size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view piece = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return piece;
}

// What is shown of a bad value: not too much, and nothing that a terminal would act on.
std::string shown(std::string_view text) {
  constexpr size_t kShown = 32;
  std::string result(text.substr(0, kShown));
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  std::replace_if(result.begin(), result.end(), is_control, '?');
  return result;
}

int64_t parse_count(std::string_view text, std::string_view file_name, size_t line, size_t column) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error != std::errc::invalid_argument && end == text.data() + text.size();
  MF_CHECK(is_number, file_name, ": line ", line, ", column ", column, ": '", shown(text),
           "' is no whole number; commas separate numbers, and # begins a line to skip");
  MF_CHECK(error == std::errc() && value >= 0 && value <= kMaxCount, file_name, ": line ", line,
           ", column ", column, ": ", shown(text), " is outside [0, ", kMaxCount, "]");
  return value;
}

std::vector<int64_t> parse_line(std::string_view rest, std::string_view file_name, size_t line) {
  if (rest.back() == ',') rest.remove_suffix(1);
  std::vector<int64_t> values;
  do {
    MF_CHECK(values.size() < kMaxCsvColumns, file_name, ": line ", line, ": more than ",
             kMaxCsvColumns, " columns");
    values.push_back(
        parse_count(trimmed(next_piece(rest, ',')), file_name, line, values.size() + 1));
  } while (!rest.empty());
  return values;
}

std::string read_text(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  MF_CHECK(stream.good(), path, ": cannot be read: ", std::strerror(errno));
  std::string text;
  std::array<char, 4096> piece;
  // One byte over the limit is enough for parse_csv to see it.
  while (stream && text.size() <= kMaxCsvBytes) {
    stream.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<size_t>(stream.gcount()));
  }
  MF_CHECK(!stream.bad(), path, ": cannot be read: ", std::strerror(errno));
  return text;
}

}  // namespace

std::vector<std::vector<int64_t>> parse_csv(std::string_view text, std::string_view file_name) {
  MF_CHECK(text.size() <= kMaxCsvBytes, file_name, ": more than ", kMaxCsvBytes, " bytes");
  MF_CHECK(!text.starts_with(kZipMark), file_name,
           ": a zip file; the name of a trace ends in .npz");
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<std::vector<int64_t>> rows;
  for (size_t line = 1; !text.empty(); ++line) {
    const std::string_view content = trimmed(next_piece(text, '\n'));
    if (content.empty() || content.front() == '#') continue;
    MF_CHECK(rows.size() < kMaxCsvLines, file_name, ": line ", line, ": more than ", kMaxCsvLines,
             " lines of numbers");
    rows.push_back(parse_line(content, file_name, line));
    MF_CHECK(rows.back().size() == rows.front().size(), file_name, ": line ", line, ": ",
             rows.back().size(), " columns, the first line has ", rows.front().size());
  }
  MF_CHECK(!rows.empty(), file_name, ": no numbers in the file");
  return rows;
}

std::vector<std::vector<int64_t>> read_csv(const std::string& path) {
  return parse_csv(read_text(path), path);
}

LoadTable parse_load_csv(std::string_view text, std::string_view file_name, int32_t num_ranks) {
  const auto rows = parse_csv(text, file_name);
  int64_t sum = 0;
  for (const auto& row : rows) sum = std::accumulate(row.begin(), row.end(), sum);
  MF_CHECK(sum <= kMaxCount, file_name, ": ", sum, " rows in the step, at most ", kMaxCount,
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
  return parse_load_csv(read_text(path), path, num_ranks);
}

}  // namespace megaflux
