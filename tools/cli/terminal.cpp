#include "cli/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

namespace megaflux::cli {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

bool names_utf8(std::string_view locale) {
  std::string lower(locale);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos;
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (const std::string_view value = environment(name); !value.empty()) return names_utf8(value);
  }
  return false;
}

std::string_view escape_code(Colour colour) {
  switch (colour) {
    case Colour::kBold:
      return "\x1b[1m";
    case Colour::kDim:
      return "\x1b[2m";
    case Colour::kRed:
      return "\x1b[31m";
    case Colour::kGreen:
      return "\x1b[32m";
    case Colour::kYellow:
      return "\x1b[33m";
    case Colour::kCyan:
      return "\x1b[36m";
  }
  return "";
}

}  // namespace

bool is_terminal(int file_descriptor) {
  return isatty(file_descriptor) == 1;
}

TextStyle style_of(int file_descriptor) {
  const bool wants_colour = environment("NO_COLOR").empty() && environment("TERM") != "dumb";
  return {.has_unicode = locale_is_utf8(),
          .has_colour = wants_colour && is_terminal(file_descriptor)};
}

std::string paint(const TextStyle& style, Colour colour, std::string_view text) {
  if (!style.has_colour) return std::string(text);
  return std::string(escape_code(colour)).append(text).append("\x1b[0m");
}

std::string bar(const TextStyle& style, double fraction, int width) {
  constexpr std::array<std::string_view, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double filled = std::clamp(fraction, 0.0, 1.0) * width;
  const int steps_a_column = style.has_unicode ? 8 : 1;
  int steps = static_cast<int>(std::lround(filled * steps_a_column));
  if (fraction > 0) steps = std::max(steps, 1);
  const int full = steps / steps_a_column;
  const int eighths = steps % steps_a_column;
  std::string text;
  for (int i = 0; i < full; ++i) text += style.has_unicode ? "█" : "#";
  text += kEighths[static_cast<size_t>(eighths)];
  return text.append(static_cast<size_t>(width - full - (eighths > 0)), ' ');
}

std::string verdict_sign(const TextStyle& style, bool holds) {
  const std::string_view sign = style.has_unicode ? (holds ? "✔" : "✘") : (holds ? "ok" : "FAIL");
  return paint(style, holds ? Colour::kGreen : Colour::kRed, sign);
}

std::string yes_or_no(const TextStyle& style, bool holds) {
  return paint(style, holds ? Colour::kGreen : Colour::kDim, holds ? "yes" : "no");
}

std::string_view arrow(const TextStyle& style) {
  return style.has_unicode ? "→" : "->";
}

std::string_view separator(const TextStyle& style) {
  return style.has_unicode ? " · " : ", ";
}

}  // namespace megaflux::cli
