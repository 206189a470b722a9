"""Every C++ file is laid out as .clang-format says. Usage: layout.py ROOT.

Exit status 1 on a file that is not, 77 (skipped) without clang-format.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from source_tree import read_tree

SKIPPED = 77


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
    clang_format = shutil.which("clang-format")
    if not clang_format:
        print("SKIPPED: clang-format is not installed, so no layout was checked. Type: ./test")
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
