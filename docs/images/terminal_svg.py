#!/usr/bin/env python3
"""Draws terminal output as an SVG picture for the README.

    script -qec "build/cpu/bin/megaflux run 2>/dev/null" /dev/null |
        docs/images/terminal_svg.py > docs/images/run.svg

`script` gives the program a terminal, so that it draws in colour.

Reads UTF-8 text with ANSI colours from standard input. Uses the Python standard library only.
"""
import html
import re
import sys

CELL_WIDTH, LINE_HEIGHT, MARGIN = 8.43, 18, 16
BACKGROUND, FOREGROUND = "#11151c", "#d8dee9"
COLOURS = {30: "#4c566a", 31: "#e06c75", 32: "#98c379", 33: "#e5c07b", 34: "#61afef",
           35: "#c678dd", 36: "#56b6c2", 37: FOREGROUND}
SGR = re.compile(r"\x1b\[([0-9;]*)m")


def spans(line, style):
    """Yields (column, text, style) for one line; `style` is carried from line to line."""
    column, position = 0, 0
    for match in list(SGR.finditer(line)) + [None]:
        text = line[position:match.start() if match else len(line)]
        if text:
            yield column, text, dict(style)
            column += len(text)
        if match is None:
            return
        position = match.end()
        for code in (int(c or 0) for c in match.group(1).split(";")):
            if code == 0:
                style.clear()
            elif code == 1:
                style["font-weight"] = "bold"
            elif code == 2:
                style["opacity"] = "0.6"
            elif code % 60 in COLOURS:  # 30..37 and their bright forms 90..97
                style["fill"] = COLOURS[code % 60]
            elif code == 39:
                style.pop("fill", None)


def main():
    lines = sys.stdin.read().replace("\r", "").rstrip("\n").split("\n")
    columns = max(len(SGR.sub("", line)) for line in lines)
    width = round(columns * CELL_WIDTH + 2 * MARGIN)
    height = len(lines) * LINE_HEIGHT + 2 * MARGIN
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
          f'viewBox="0 0 {width} {height}" role="img" aria-label="output of megaflux run">')
    print(f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>')
    print(f'<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" '
          f'fill="{FOREGROUND}" xml:space="preserve">')
    style = {}
    for row, line in enumerate(lines):
        baseline = MARGIN + (row + 0.75) * LINE_HEIGHT
        for column, text, look in spans(line, style):
            attributes = "".join(f' {name}="{value}"' for name, value in look.items())
            length = f'{len(text) * CELL_WIDTH:.2f}'
            print(f'<text x="{MARGIN + column * CELL_WIDTH:.2f}" y="{baseline:.1f}" '
                  f'textLength="{length}"{attributes}>{html.escape(text)}</text>')
    print("</g></svg>")


if __name__ == "__main__":
    main()
