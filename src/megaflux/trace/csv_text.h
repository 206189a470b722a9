// Comma-separated text, line by line. Blank lines and lines that start with # are left out; blanks
// around a value, a comma at the end of a line, Windows line ends and a byte order mark are
// accepted. Untrusted input; nothing is copied.
//
// Example: "# batch 1\n 3, 4,\r\n" is one line, number 2, with the fields "3" and "4".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace megaflux {

inline constexpr int64_t kMaxCsvCount = 2147483647;

class CsvLines {
 public:
  // Throws kBadInput if `text` is a zip file, which a trace under another name would be.
  CsvLines(std::string_view text, std::string_view file_name);

  // The next line with anything on it; false at the end.
  bool next();
  size_t number() const { return number_; }  // from 1
  // Without blanks around it and without a comma at its end.
  std::string_view content() const { return content_; }

 private:
  std::string_view rest_;
  std::string_view content_;
  size_t number_ = 0;
};

// Cuts the first field off `rest`, without blanks around it. The last field leaves nothing.
std::string_view next_csv_field(std::string_view& rest);

// Throws kBadInput naming file, line, column and value unless `field` is a whole number in
// [0, kMaxCsvCount].
int64_t parse_csv_count(std::string_view field, std::string_view file_name, size_t line,
                        size_t column);

// What is shown of a bad value: not too much, and nothing that a terminal would act on.
std::string shown_value(std::string_view text);

}  // namespace megaflux
