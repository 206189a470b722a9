"""The check of ptxas' reports finds what no kernel may do, and nothing else, and keeps what it read."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cmake"))
import ptxas_report  # noqa: E402

CLEAN = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'plan_kernel' for 'sm_90a'
ptxas info    : Function properties for plan_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, used 0 barriers
"""


class Findings(unittest.TestCase):
    def test_a_clean_report_has_none(self):
        self.assertEqual([], ptxas_report.findings(CLEAN))

    def test_each_kind_is_found_with_its_function(self):
        for line, wrong in (
            ("    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads", "8 bytes stack frame"),
            ("    0 bytes stack frame, 16 bytes spill stores, 0 bytes spill loads", "16 bytes spill stores"),
            ("    0 bytes stack frame, 0 bytes spill stores, 4 bytes spill loads", "4 bytes spill loads"),
            ("ptxas info    : Used 30 registers, 24 bytes lmem", "24 bytes lmem"),
        ):
            with self.subTest(line=line):
                report = CLEAN + "ptxas info    : Function properties for head_kernel\n" + line + "\n"
                self.assertEqual([("head_kernel", wrong)], ptxas_report.findings(report))

    def test_advice_is_found(self):
        for code, words in (
            ("C7510", "Potential Performance Loss: wgmma.mma_async instructions are serialized due to something"),
            ("C7508", "setmaxnreg ignored to maintain minimum register requirements"),
        ):
            with self.subTest(code=code):
                line = f"ptxas info    : ({code}) {words} in function 'gemm_kernel'\n"
                self.assertEqual([("gemm_kernel", f"{code}, {words}")], ptxas_report.findings(CLEAN + line))


class Run(unittest.TestCase):
    def compile(self, report, status=0):
        """A command that reports and writes its object as a compiler does: (status, report, is the object there)."""
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "x.o"
            script = "import sys; open(sys.argv[-1], 'w'); sys.stderr.write(sys.argv[1]); sys.exit(int(sys.argv[2]))"
            got = ptxas_report.main([sys.executable, "-c", script, report, str(status), "-o", str(target)])
            return got, Path(f"{target}.ptxas").read_text(), target.exists()

    def test_a_clean_object_stays(self):
        self.assertEqual((0, CLEAN, True), self.compile(CLEAN))

    def test_an_object_that_spills_goes(self):
        report = CLEAN.replace("0 bytes spill stores", "4 bytes spill stores")
        self.assertEqual((1, report, False), self.compile(report))

    def test_the_compilers_own_status_comes_back(self):
        self.assertEqual(3, self.compile("error\n", 3)[0])


if __name__ == "__main__":
    unittest.main()
