"""`./test --gpu` counts what its programs say, shouts at skips, and fails when one of them does. The programs are scripts."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PASSES = "echo 'gpu_test: 3 passed, 0 failed, 1 skipped in 0.1 s on 1 GPU(s)'; echo '!!! 1 test(s) were SKIPPED'"
FAILS = "echo '[  FAILED  ] Plan.IsEqual (3 ms)'; echo '2 passed, 1 failed, 0 skipped'; exit 1"
NO_GPU = "echo '!!! SKIPPED, no test can run here'; echo '0 passed, 0 failed, 4 skipped'; exit 77"
DIES = "echo '7 passed, 0 failed, 0 skipped'; kill -SEGV $$"
SILENT = "true"
# Says which size it was given, and whether a tool ran it.
SAYS_SIZE = "echo \"$@ ${TOOL:-bare}\" >> \"$0.calls\"; echo '1 passed, 0 failed, 0 skipped'"


class GpuSuite(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def program(self, name, body):
        path = self.folder / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)
        return path

    def run_suite(self, *arguments, env=None, **programs):
        for name, body in programs.items():
            self.program(f"gpu_test_{name}", body)
        return subprocess.run([ROOT / "test", "--gpu", *arguments, "--build", self.folder], capture_output=True,
                              text=True, timeout=60, check=False, env=env)

    def test_counts_are_added_up(self):
        result = self.run_suite(fake_a=PASSES, fake_b=PASSES)
        self.assertEqual(0, result.returncode, result.stdout + result.stderr)
        self.assertIn("6 passed, 0 failed, 2 skipped", result.stdout)
        self.assertIn("!!! 2 test(s) did not run", result.stdout)

    def test_a_failure_fails_and_is_shown(self):
        result = self.run_suite(fake_a=PASSES, fake_b=FAILS)
        self.assertEqual(1, result.returncode)
        self.assertIn("5 passed, 1 failed, 1 skipped", result.stdout)
        self.assertIn("Plan.IsEqual", result.stdout)

    def test_no_gpu_is_a_skip_that_shouts(self):
        result = self.run_suite(fake_a=NO_GPU)
        self.assertEqual(0, result.returncode, result.stdout)
        self.assertIn("0 passed, 0 failed, 4 skipped", result.stdout.splitlines()[-1])
        self.assertIn("!!! SKIPPED, no test can run here", result.stdout)

    def test_a_program_that_dies_or_says_nothing_has_failed(self):
        for body in (DIES, SILENT):
            with self.subTest(body=body):
                result = self.run_suite(fake_a=body)
                self.assertEqual(1, result.returncode, result.stdout)
                self.assertIn("1 failed", result.stdout.splitlines()[-1])

    def test_no_program_is_an_error(self):
        result = self.run_suite()
        self.assertEqual(1, result.returncode)
        self.assertIn("no gpu_test_*", result.stderr)

    def test_the_size_goes_to_the_programs(self):
        self.run_suite("soak", fake_a=SAYS_SIZE)
        self.assertEqual("--size=soak bare\n", (self.folder / "gpu_test_fake_a.calls").read_text())

    def test_sanitize_runs_each_program_under_each_tool(self):
        self.program("compute-sanitizer", 'while [[ $1 == --* ]]; do shift 2; done\nTOOL=sanitized exec "$@"')
        path = f"{self.folder}:{os.environ['PATH']}"
        result = self.run_suite("sanitize", fake_a=SAYS_SIZE, env={**os.environ, "PATH": path})
        self.assertEqual("--size=sanitize sanitized\n" * 3, (self.folder / "gpu_test_fake_a.calls").read_text())
        for tool in ("memcheck", "racecheck", "synccheck"):
            self.assertIn(f"gpu_test_fake_a {tool}", result.stdout)

    def test_bad_arguments_are_named(self):
        self.assertIn("fast", self.run_suite("fast", fake_a=PASSES).stderr)
        late = subprocess.run([ROOT / "test", "--quick", "--gpu"], capture_output=True, text=True, check=False)
        self.assertIn("--gpu", late.stderr)


if __name__ == "__main__":
    unittest.main()
