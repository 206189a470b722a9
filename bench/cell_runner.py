"""Commands that measure, one after the other: each in a process group of its own, with a deadline."""
import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
import tempfile
import zipfile

# Of our programs before and while they allocate, and of PyTorch.
NO_MEMORY = ("not run: memory", "cudaErrorMemoryAllocation", "OutOfMemoryError")
# Recorded counts of the real-* families in data/, by E.
COUNTS = {256: "glm52_prefill_counts.npz", 128: "qwen3_30b_a3b_decode_counts.npz", 64: "olmoe_lens_counts.npz"}
NO_MODULE = re.compile(r"No module named '(\w+)'")


@dataclasses.dataclass(frozen=True)
class Ended:
    """What a command left behind."""
    status: int | None  # None: its deadline ended it
    out: str
    err: str


def store(source, target):
    """The same trace without compression: the GPU program is built without libzip."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for item in old.infolist():
            new.writestr(item.filename, old.read(item))


def end_on_signals(name):
    """Whoever ends the script ends its command too, which has a group of its own: no signal of a terminal gets there."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, lambda *_: sys.exit(f"{name}: told to end"))


def why_no_appending(path):
    """Why nothing can be appended to a file, or an empty text. Makes the file."""
    try:
        with open(path, "ab"):
            return ""
    except OSError as error:
        return f"{path}: {error.strerror}"


def run_in_group(command, deadline):
    """Runs one command. Its group ends as a whole: nothing may go on working on a GPU beside the next one."""
    # Files in the place of pipes: a grandchild that lives on would hold a pipe open.
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, process_group=0)
        except OSError as error:
            return Ended(127, "", f"{command[0]}: {error.strerror}\n")
        try:
            status = process.wait(deadline)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        return Ended(status, out.read(), err.read())


def why_no_figures(ended, deadline):
    """Why a command gave no figures, or an empty text."""
    if ended.status == 0:
        return ""
    if any(word in ended.err for word in NO_MEMORY):
        return "not run: memory"
    if missing := NO_MODULE.search(ended.err):
        return f"not run: its Python has no {missing[1]}"
    return f"failed: no end in {deadline:.0f} s" if ended.status is None else f"failed: status {ended.status}"
