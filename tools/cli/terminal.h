// How text looks on the stream it goes to: Unicode or ASCII, colour or none.
#pragma once

#include <string>
#include <string_view>

namespace megaflux::cli {

enum class Colour { kBold, kDim, kRed, kGreen, kYellow, kCyan };

struct TextStyle {
  bool has_unicode = false;  // the locale is UTF-8
  bool has_colour = false;   // the stream is a terminal that shows colour, and NO_COLOR is not set
};

// The style of a stream: LC_ALL, LC_CTYPE or LANG (the first that is set) names UTF-8 or not;
// NO_COLOR set to anything but the empty string, TERM=dumb or a pipe mean no colour.
TextStyle style_of(int file_descriptor);

bool is_terminal(int file_descriptor);

// `text` in `colour`, or as it is.
std::string paint(const TextStyle& style, Colour colour, std::string_view text);

// A bar that fills `fraction` (clamped to [0, 1]) of `width` columns, padded to `width` with
// blanks. Unicode bars resolve an eighth of a column; anything above zero shows at least the
// thinnest one.
std::string bar(const TextStyle& style, double fraction, int width);

// The signs of a verdict: a tick and a cross, or "ok" and "FAIL".
std::string verdict_sign(const TextStyle& style, bool holds);

// "yes" or "no", coloured.
std::string yes_or_no(const TextStyle& style, bool holds);

// "->" as an arrow where the locale has one.
std::string_view arrow(const TextStyle& style);
// Separates facts on one line: " · " or ", ".
std::string_view separator(const TextStyle& style);

}  // namespace megaflux::cli
