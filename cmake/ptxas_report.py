"""Runs a compile command, keeps what ptxas reports beside the object, and fails on what no kernel of ours may do.

Usage: ptxas_report.py COMMAND..., with ptxas' -v among its options; the report goes to OBJECT.ptxas. Refused are
spills, local memory in any form (a stack frame is local memory too), and ptxas' advice of the kind C75xx: C7508, setmaxnreg was
ignored; C7510, wgmma instructions were serialized.
"""

import re
import subprocess
import sys
from pathlib import Path

_FUNCTION = re.compile(r"Function properties for (\S+)|Compiling entry function '(\S+)'|in function '(\S+?)'")
_BYTES = re.compile(r"(\d+) bytes (stack frame|spill stores|spill loads|lmem)")
_ADVICE = re.compile(r"\((C75\d\d)\) *(.*?)(?: in (?:the )?function '\S+)?$")


def findings(report):
    """[(function, what is wrong)] of a report, in its order."""
    found = []
    function = "(no function named)"
    for line in report.splitlines():
        named = _FUNCTION.search(line)
        if named:
            function = next(name for name in named.groups() if name)
        found += [(function, f"{count} bytes {kind}") for count, kind in _BYTES.findall(line) if count != "0"]
        advice = _ADVICE.search(line)
        if advice:
            found.append((function, f"{advice[1]}, {advice[2]}"))
    return found


def object_of(command):
    """The object that the command writes, or None."""
    places = [place + 1 for place, word in enumerate(command[:-1]) if word == "-o"]
    return Path(command[places[-1]]) if places else None


def main(command):
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    target = object_of(command)
    lines = result.stderr.splitlines(keepends=True)
    is_report = [line.startswith("ptxas info") or re.match(r"\s+\d+ bytes stack frame", line) for line in lines]
    sys.stderr.writelines(line for line, report in zip(lines, is_report) if not report)
    if target is not None:
        Path(f"{target}.ptxas").write_text(result.stderr)
    if result.returncode:
        return result.returncode
    found = findings(result.stderr)
    for function, wrong in found:
        print(f"error: {function}: {wrong}; what ptxas said: {target}.ptxas", file=sys.stderr)
    if found and target is not None:
        target.unlink(missing_ok=True)  # an object that failed is not linked by the next build
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
