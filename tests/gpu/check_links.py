"""The programs of preset cuda need nothing that a machine with a GPU may lack. Usage: check_links.py PROGRAM...

The driver is no exception: a program linked to libcuda does not start without one.
"""

import re
import subprocess
import sys

ALLOWED = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}


def needed_by(program):
    listing = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", listing))


def main(programs):
    is_bad = False
    for program in programs:
        needed = needed_by(program)
        print(f"{program}: {', '.join(sorted(needed))}")
        if not needed or needed - ALLOWED:
            print(f"{program}: needs {', '.join(sorted(needed - ALLOWED)) or 'nothing, which cannot be'}")
            is_bad = True
    return 1 if is_bad or not programs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
