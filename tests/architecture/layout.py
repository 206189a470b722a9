"""Every C++ file is laid out as .clang-format says. Usage: layout.py ROOT.

Exit status 1 on a file that is not, 77 (skipped) without the clang-format that the tree is laid out with:
versions differ in their taste.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from source_tree import read_tree

SKIPPED = 77
VERSION = "14"


def version_of(clang_format):
    result = subprocess.run([clang_format, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"version (\d+)", result.stdout)
    return match.group(1) if match else "none"


def badly_laid_out(clang_format, root, files, text=None):
    """The diagnostics of the first bad line of each file, or of `text` as if it were files[0]."""
    command = [clang_format, "--dry-run", "-Werror", "--ferror-limit=1"]
    if text is not None:
        command += [f"--assume-filename={files[0]}"]
        files = []
    result = subprocess.run(
        command + files, cwd=root, input=text, capture_output=True, text=True, check=False
    )
    return result.stderr if result.returncode else ""


def main(root):
    clang_format = shutil.which(f"clang-format-{VERSION}") or shutil.which("clang-format")
    version = version_of(clang_format) if clang_format else "none"
    if version != VERSION:
        print(f"SKIPPED: no layout was checked, which takes clang-format {VERSION}; found: {version}")
        return SKIPPED
    if not badly_laid_out(clang_format, root, ["src/x.cpp"], "int   f( ){return 1 ;}\n"):
        print("clang-format let a badly laid out line through")
        return 1
    files = [source.path for source in read_tree(Path(root)) if source.is_cpp]
    diagnostics = badly_laid_out(clang_format, root, files)
    print(diagnostics, f"{len(files)} files, {diagnostics.count('error:')} badly laid out", sep="")
    if diagnostics:
        print("Type: clang-format -i FILE")
    return 1 if diagnostics or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
