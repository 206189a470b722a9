#include "cli/text_format.h"

#include <fmt/format.h>

#include <array>

namespace megaflux::cli {

std::string count_text(int64_t count) {
  std::string text = std::to_string(count);
  const size_t first_digit = count < 0 ? 1 : 0;
  for (size_t end = text.size(); end > first_digit + 3;) {
    end -= 3;
    text.insert(end, 1, ',');
  }
  return text;
}

std::string plural(int64_t count, const std::string& noun) {
  return count_text(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string bytes_text(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kUnits[unit]);
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string printable(std::string_view text) {
  constexpr unsigned char kLatinLead = 0xc2, kFirstLatinLetter = 0xa0;
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == kLatinLead && next >= 0x80 && next < kFirstLatinLetter) {
      shown += fmt::format("\\x{:02x}", next);
      ++i;
    } else if (byte < 0x20 || byte == 0x7f) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += text[i];
    }
  }
  return shown;
}

}  // namespace megaflux::cli
