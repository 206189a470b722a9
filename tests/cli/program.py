"""Runs the program and looks at what it wrote."""

import importlib
import json
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

PROGRAM = os.environ["MF_PROGRAM"]
SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
DATA_DIR = SOURCE_DIR / "data"

# Eight experts on four ranks; rank 0 owns most of the rows.
SKEWED = "900,700,120,100,90,80,60,50"


def imported(name, folder="."):
    """The module `name` of bench/."""
    with unittest.mock.patch.object(sys, "path", [str(SOURCE_DIR / "bench" / folder), *sys.path]):
        return importlib.import_module(name)


def environment(**changes):
    """The environment of a plain UTF-8 terminal, with `changes`; None removes a variable."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("LC_") and k != "NO_COLOR"}
    env.update(LANG="C.UTF-8", TERM="xterm")
    for name, value in changes.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def call(*arguments, cwd=None, env=None, timeout=300, program=PROGRAM, prepare=None):
    """`prepare` is called in the new process, before the program is."""
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, cwd=cwd,
                          env=env or environment(), timeout=timeout, stdin=subprocess.DEVNULL,
                          preexec_fn=prepare)


def call_on_terminal(*arguments, env=None):
    """Runs with standard output and error on a terminal; returns the status and all that was shown."""
    leader, follower = pty.openpty()
    process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=follower, stderr=follower,
                               stdin=subprocess.DEVNULL, env=env or environment())
    os.close(follower)
    shown = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # Linux says so when the last writer has closed
            break
        if not piece:
            break
        shown += piece
    os.close(leader)
    return process.wait(), shown.decode()


class ProgramTest(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def loads(self, text=SKEWED):
        return self.write("loads.csv", text + "\n")

    def ok(self, *arguments, **keywords):
        result = call(*arguments, **keywords)
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        return result

    def json(self, *arguments, status=0, **keywords):
        """The JSON on standard output, which holds nothing else."""
        result = call(*arguments, "--json", "-", **keywords)
        self.assertEqual(result.returncode, status, result.stderr)
        return json.loads(result.stdout)

    def rejected(self, *arguments, words, status=2, **keywords):
        """The call fails with one line on standard error that holds all `words`, and prints nothing."""
        result = call(*arguments, **keywords)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        self.assertEqual(result.stdout, "")
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("megaflux: error: "), lines[0])
        for word in words:
            self.assertIn(word, lines[0])
        return lines[0]


def has_gpu():
    """Asked once; the doctor's status says it."""
    if not hasattr(has_gpu, "answer"):
        has_gpu.answer = call("doctor", "--backend", "cuda").returncode == 0
    return has_gpu.answer


class NeedsGpu(ProgramTest):
    """What takes a GPU."""

    def setUp(self):
        super().setUp()
        if not has_gpu():
            self.skipTest("needs a GPU")
