"""The source tree as the checks see it: paths, texts, and texts without comments and strings."""

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

NOT_OURS = {".git", ".cache", ".ccache", "build", "__pycache__", "node_modules"}
CPP_SUFFIXES = {".h", ".hpp", ".cpp", ".c", ".cu", ".cuh"}
CODE_SUFFIXES = CPP_SUFFIXES | {".py", ".cmake", ".sh", ".js", ".css", ".html"}
TEXT_SUFFIXES = CODE_SUFFIXES | {".md", ".txt", ".json", ".toml", ".in", ""}

# Comments, string and character literals; quotes between digits (10'000) are neither.
_CPP_NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def _blank(match):
    """Keeps line numbers: noise turns into as many newlines as it held."""
    return " " + "\n" * match.group(0).count("\n")


@dataclass(frozen=True)
class Source:
    """One file. `path` is relative to the root, with forward slashes."""

    path: str
    text: str

    @property
    def suffix(self):
        return Path(self.path).suffix

    @property
    def is_cpp(self):
        return self.suffix in CPP_SUFFIXES

    @property
    def is_cuda(self):
        return self.suffix in (".cu", ".cuh") or self.path.endswith("_cuda.h")

    @property
    def lines(self):
        return self.text.count("\n") + (not self.text.endswith("\n"))

    @cached_property
    def code(self):
        """The text without comments and literals, line for line."""
        return _CPP_NOISE.sub(_blank, self.text)

    @cached_property
    def uncommented(self):
        """The text without comments, line for line; literals stay, inline PTX among them."""
        return _CPP_NOISE.sub(lambda m: _blank(m) if m.group(0).startswith("/") else m.group(0), self.text)

    @cached_property
    def includes(self):
        """[(line, path as written)] of every include."""
        return [(line_of(self.text, m.start()), m.group(2)) for m in _INCLUDE.finditer(self.text)]

    def is_below(self, *folders):
        return any(self.path.startswith(folder.rstrip("/") + "/") for folder in folders)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def read_tree(root):
    """Every text file of the project below `root`, by path. Files that vanish while we look are left out."""
    sources = []
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in NOT_OURS)
        for name in sorted(files):
            full = Path(folder) / name
            if full.suffix not in TEXT_SUFFIXES or full.is_symlink():
                continue
            try:
                text = full.read_text(encoding="utf-8")
            except (UnicodeDecodeError, FileNotFoundError):
                continue
            sources.append(Source(full.relative_to(root).as_posix(), text))
    return sources
