#include "megaflux/trace/csv_text.h"

#include <algorithm>
#include <charconv>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

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

}  // namespace

CsvLines::CsvLines(std::string_view text, std::string_view file_name) : rest_(text) {
  MF_CHECK(!text.starts_with(kZipMark), file_name,
           ": a zip file; the name of a trace ends in .npz");
  if (text.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
}

bool CsvLines::next() {
  while (!rest_.empty()) {
    ++number_;
    content_ = trimmed(next_piece(rest_, '\n'));
    if (content_.empty() || content_.front() == '#') continue;
    if (content_.back() == ',') content_.remove_suffix(1);
    return true;
  }
  return false;
}

std::string_view next_csv_field(std::string_view& rest) {
  return trimmed(next_piece(rest, ','));
}

int64_t parse_csv_count(std::string_view field, std::string_view file_name, size_t line,
                        size_t column) {
  int64_t value = 0;
  const char* const last = field.data() + field.size();
  const auto [end, error] = std::from_chars(field.data(), last, value);
  const bool is_number = error != std::errc::invalid_argument && end == last;
  MF_CHECK(is_number, file_name, ": line ", line, ", column ", column, ": '", shown_value(field),
           "' is no whole number; commas separate numbers, and # begins a line to skip");
  MF_CHECK(error == std::errc() && value >= 0 && value <= kMaxCsvCount, file_name, ": line ", line,
           ", column ", column, ": ", shown_value(field), " is outside [0, ", kMaxCsvCount, "]");
  return value;
}

std::string shown_value(std::string_view text) {
  constexpr size_t kShown = 32;
  std::string result(text.substr(0, kShown));
  const auto is_odd = [](unsigned char c) { return c < 0x20 || c >= 0x7f; };
  std::replace_if(result.begin(), result.end(), is_odd, '?');
  return result;
}

}  // namespace megaflux
