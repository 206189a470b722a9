"""Every library header compiles alone with the host compiler; megaflux.h also as C.

Usage: headers_alone.py ROOT BUILD C++-COMPILER C-COMPILER; exit status 1 if one does not.

A header that a source of the build includes before anything else has compiled alone there and is not compiled again.
"""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rules import LIBRARY
from source_tree import read_tree

STRICT = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-pragma-once-outside-header"]


def compile_alone(command, text):
    return subprocess.run(command + ["-"], input=text, capture_output=True, text=True, check=False)


def first_includes(root, build):
    """Headers that stand first in a source that the build compiles, counted from src/."""
    listed = Path(build) / "compile_commands.json"
    commands = json.loads(listed.read_text()) if listed.exists() else []
    sources = {Path(command["directory"], command["file"]).resolve() for command in commands}
    inside = (Path(root) / "src").resolve()
    first = (re.search(r"^\s*#.*$", source.read_text(), re.MULTILINE)
             for source in sources if source.is_relative_to(inside))
    included = (re.fullmatch(r'\s*#\s*include\s+"(.*)"', found[0]) for found in first if found)
    return {found[1] for found in included if found}


def main(root, build, cxx, cc):
    src = str(Path(root) / "src")
    as_cpp = [cxx, "-std=c++20", "-x", "c++", "-I", src, *STRICT]
    as_c = [cc, "-std=c11", "-x", "c", "-I", src, *STRICT]

    if compile_alone(as_cpp, "std::vector<int> names_what_it_does_not_include;\n").returncode == 0:
        print("a header that lacks an include was let through")
        return 1

    headers = [
        source.path.removeprefix("src/")
        for source in read_tree(root)
        if source.is_below(LIBRARY) and source.suffix == ".h" and not source.is_cuda
    ]
    compiled = first_includes(root, build)
    jobs = [(as_cpp, header) for header in headers if header not in compiled]
    jobs += [(as_c, header) for header in headers if header == "megaflux/megaflux.h"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda job: compile_alone(job[0], f'#include "{job[1]}"\n'), jobs))
    failed = [result for result in results if result.returncode != 0]
    for result in failed:
        print(result.stderr)
    print(f"{len(headers)} headers, {len(compiled)} of them first in a source; {len(failed)} do not compile alone")
    return 1 if failed or not jobs else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
