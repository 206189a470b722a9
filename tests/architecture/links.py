"""Relative links in *.md lead to files that exist, and anchors to headings that exist.

Usage: links.py ROOT; exit status 1 on a broken link.
"""

import os
import posixpath
import re
import sys
from pathlib import Path

from source_tree import NOT_OURS, Source, line_of, read_tree

_CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")


def _keep_lines(match):
    return "\n" * match.group(0).count("\n")


def anchors_of(text):
    """The anchors that a forge makes of the headings: lower case, punctuation gone, blanks to dashes."""
    anchors, seen = set(), {}
    for match in _HEADING.finditer(_FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match.group(1))
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        anchors.add(slug if slug not in seen else f"{slug}-{seen[slug]}")
        seen[slug] = seen.get(slug, 0) + 1
    return anchors


def broken_links(sources, other_files=()):
    """`other_files`: paths that exist beside the sources, folders not needed."""
    texts = {source.path: source.text for source in sources}
    paths = set(texts) | set(other_files)
    for path in list(paths):
        paths.update(str(parent) for parent in Path(path).parents)
    found = []
    for source in sources:
        if source.suffix != ".md":
            continue
        for match in _LINK.finditer(_CODE.sub(_keep_lines, source.text)):
            target = match.group(1)
            if _SCHEME.match(target):
                continue
            file, _, anchor = target.partition("#")
            path = posixpath.normpath(posixpath.join(posixpath.dirname(source.path), file))
            path = path if file else source.path
            where = f"{source.path}:{line_of(_CODE.sub(_keep_lines, source.text), match.start())}"
            if path not in paths:
                found.append(f"{where}: no file {path}")
            elif anchor and path.endswith(".md") and anchor not in anchors_of(texts[path]):
                found.append(f"{where}: no heading #{anchor} in {path}")
    return found


def main(root):
    other = set()
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in NOT_OURS]
        other.update((Path(folder) / name).relative_to(root).as_posix() for name in files)
    sources = read_tree(root)
    found = broken_links(sources, other)
    print(*found, sep="\n")
    print(f"{sum(s.suffix == '.md' for s in sources)} documents, {len(found)} broken links")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
