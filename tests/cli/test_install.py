"""The program works from any folder, and from where an installation puts it, without the source tree's help."""

import shutil

from program import DATA_DIR, PROGRAM, ProgramTest, call

SMALL = ["--tokens", 128, "--hidden", 16, "--inter", 16]


class Anywhere(ProgramTest):
    def test_default_trace_is_found_from_another_folder(self):
        self.assertTrue(self.json("run", *SMALL, cwd=self.folder)["all_hold"])

    def test_installed_program_reads_the_installed_trace(self):
        data = self.folder / "share/megaflux/data"
        data.mkdir(parents=True)
        (self.folder / "bin").mkdir()
        program = shutil.copy(PROGRAM, self.folder / "bin/megaflux")
        shutil.copy(DATA_DIR / "esft_law.npz", data)
        self.ok("run", *SMALL, program=program, cwd="/")
        # It is that file which is read: without it the run fails.
        (data / "esft_law.npz").unlink()
        result = call("run", *SMALL, program=program)
        self.assertEqual(result.returncode, 2)
        self.assertIn(str(data), result.stderr)
