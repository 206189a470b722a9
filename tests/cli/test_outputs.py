"""Output files: each has its own, and is whole or as it was."""

import json
import os
import resource
import signal
import stat
import subprocess
import threading
import unittest

from program import DATA_DIR, PROGRAM, ProgramTest, call

TRACE = DATA_DIR / "olmoe_lens_counts.npz"


class OneFileTwice(ProgramTest):
    def refused(self, *arguments, words):
        """In the test's folder, where nothing new is there afterwards."""
        before = sorted(self.folder.iterdir())
        self.rejected(*arguments, words=words, cwd=self.folder)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_names_of_a_file_that_is_not_there_yet(self):
        loads = self.loads()
        names = ["a.out", "./a.out", "../" + self.folder.name + "/a.out", self.folder / "a.out"]
        for first in names:
            for second in names:
                self.refused("plan", loads, "--json", first, "--plan-out", second, words=["--plan-out", "--json"])

    def test_every_pair_of_outputs(self):
        self.refused("simulate", TRACE, "--json", "./b.out", "--suggest-owners", "b.out",
                     words=["--suggest-owners", "--json"])
        self.refused("report", TRACE, "--json", "./b.out", "-o", "b.out", words=["--json", "-o"])
        self.refused("import", self.loads(), "--json", "./b.npz", "-o", "b.npz", words=["--json", "file of -o too"])
        for name in ("b.manifest.json", "b.chunk000000.npz"):
            self.refused("export", TRACE, "--json", self.folder / name, "-o", "b", words=["--json", "file of -o too"])

    def test_links_that_lead_to_nothing_yet(self):
        loads = self.loads()
        (self.folder / "folder").mkdir()
        (self.folder / "dangling").symlink_to("folder/nowhere")
        (self.folder / "further").symlink_to("./dangling")
        for link in ("dangling", "further"):
            self.refused("plan", loads, "--json", link, "--plan-out", "folder/nowhere", words=["--plan-out", "--json"])
            self.refused("plan", loads, "--json", "folder/nowhere", "--plan-out", link, words=["--plan-out", "--json"])
        self.refused("plan", loads, "--json", "dangling", "--plan-out", "further", words=["--plan-out", "--json"])

    def test_files_that_differ(self):
        loads = self.loads()
        (self.folder / "dangling").symlink_to("nowhere")
        self.ok("plan", loads, "--json", "dangling", "--plan-out", "./a.out", cwd=self.folder)
        self.assertTrue((self.folder / "nowhere").read_text().startswith("{"))
        self.assertTrue((self.folder / "a.out").read_bytes().startswith(b"MFPL"))


SMALL_RUN = ("--tokens", 8, "--hidden", 16, "--inter", 16)


def like_a_full_disk():
    """Files end after 64 bytes, which is in the middle of every output."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))


class WholeOrAsBefore(ProgramTest):
    def contents(self):
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}

    def outputs(self):
        """Commands, each with the option that names the output, and the file that cannot be whole."""
        loads = self.loads()
        report = ("report", TRACE, "--what-if-planners", "fixed", "--threads", 1)
        yield ("plan", loads), "--json", "old"
        yield ("plan", loads), "--plan-out", "old"
        yield ("explain", loads), "--json", "old"
        yield ("simulate", TRACE, "--planners", "fixed", "--cases", 2), "--json", "old"
        yield ("simulate", TRACE, "--planners", "fixed", "--cases", 2), "--suggest-owners", "old"
        yield ("bench", "plan", TRACE, "--cases", 1), "--json", "old"
        yield ("run", *SMALL_RUN), "--json", "old"
        yield ("doctor",), "--json", "old"
        yield report, "-o", "old"
        yield ("import", loads), "-o", "old.npz"
        yield ("export", TRACE), "-o", "old.chunk000000.npz"

    def test_a_full_disk_leaves_the_old_file(self):
        for command, option, name in self.outputs():
            with self.subTest(command=command[0], option=option):
                (self.folder / name).write_text("an older result")
                before = self.contents()
                target = "old" if command[0] == "export" else name
                result = call(*command, option, target, cwd=self.folder, prepare=like_a_full_disk)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertIn(f"error: {option}: {name}: cannot be written: File too large", result.stderr)
                self.assertEqual(self.contents(), before)
                (self.folder / name).unlink()
                call(*command, option, target, cwd=self.folder, prepare=like_a_full_disk)
                self.assertEqual(list(self.contents()), ["loads.csv"])

    def test_every_output_takes_the_place_of_the_old_file(self):
        for command, option, name in self.outputs():
            with self.subTest(command=command[0], option=option):
                path = self.folder / name
                path.write_text("an older result")
                path.chmod(0o640)
                self.ok(*command, option, "old" if command[0] == "export" else name, cwd=self.folder)
                self.assertGreater(path.stat().st_size, 100)
                self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o640)
                self.assertEqual([left for left in self.contents() if left.startswith(".")], [])

    def test_an_export_is_whole_with_all_its_files(self):
        self.ok("export", TRACE, "-o", "run", cwd=self.folder)
        before = self.contents()
        (self.folder / "run.manifest.json").unlink()
        (self.folder / "run.manifest.json").symlink_to("/dev/full")
        result = call("export", TRACE, "--ranks", 4, "-o", "run", cwd=self.folder)
        self.assertEqual(result.returncode, 2)
        self.assertIn("run.manifest.json: cannot be written: No space", result.stderr)
        (self.folder / "run.manifest.json").unlink()
        self.assertEqual(self.contents(), {k: v for k, v in before.items() if k != "run.manifest.json"})

    def test_permissions_of_a_new_file(self):
        self.ok("plan", self.loads(), "--json", "new", cwd=self.folder, prepare=lambda: os.umask(0o027))
        self.assertEqual(stat.S_IMODE((self.folder / "new").stat().st_mode), 0o640)

    @unittest.skipUnless(os.geteuid() == 0, "only root can be somebody else")
    def test_a_file_of_others_stays_theirs(self):
        def become_a_member():
            os.setgroups([2000])
            os.setgid(1001)
            os.setuid(1001)
        try:
            subprocess.run([PROGRAM, "--version"], preexec_fn=become_a_member, capture_output=True, check=True)
        except (PermissionError, subprocess.CalledProcessError):
            self.skipTest(f"nobody but root reaches {PROGRAM}")
        # Theirs and their group's, in a folder that anyone writes into; and in one with the sticky bit.
        for mode in (0o777, 0o1777):
            folder = self.folder / oct(mode)
            folder.mkdir()
            target = folder / "shared"
            target.write_text("old")
            os.chown(target, 1000, 2000)
            target.chmod(0o660)
            folder.chmod(mode)
            self.folder.chmod(0o755)
            loads = self.loads()
            loads.chmod(0o644)

            self.ok("plan", loads, "--json", target, prepare=become_a_member)
            seen = target.stat()
            self.assertEqual((1000, 2000, 0o660), (seen.st_uid, seen.st_gid, stat.S_IMODE(seen.st_mode)))
            json.loads(target.read_text())
            self.assertEqual([target], list(folder.iterdir()))

    def test_links_stay_links(self):
        loads = self.loads()
        (self.folder / "folder").mkdir()
        (self.folder / "link").symlink_to("folder/file")
        for _ in ("a file that is not there", "a file that is"):
            self.ok("plan", loads, "--plan-out", "link", cwd=self.folder)
            self.assertTrue((self.folder / "link").is_symlink())
            self.assertEqual([path.name for path in (self.folder / "folder").iterdir()], ["file"])
            self.assertTrue((self.folder / "folder/file").read_bytes().startswith(b"MFPL"))
        (self.folder / "nowhere").symlink_to("none/file")
        self.rejected("plan", loads, "--json", "nowhere", words=["--json: nowhere", "none does not exist"],
                      cwd=self.folder)

    def test_names_as_long_as_a_folder_takes(self):
        name = "x" * 255
        self.ok("plan", self.loads(), "--json", name, cwd=self.folder)
        self.assertEqual(sorted(self.contents()), ["loads.csv", name])

    def test_what_is_no_regular_file_is_written_directly(self):
        loads = self.loads()
        self.ok("plan", loads, "--json", "/dev/null")
        text = self.ok("plan", loads, "--json", "/dev/stdout").stdout
        self.assertIn('"schema": "megaflux.plan/1"', text)
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        read = []
        reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
        reader.start()
        self.ok("plan", loads, "--plan-out", pipe)
        reader.join()
        self.assertTrue(read[0].startswith(b"MFPL"))
        self.assertTrue(pipe.is_fifo())

    def test_what_is_open_is_written_as_it_is(self):
        path = self.write("out", "an older result, of which nothing is left")
        before = path.stat().st_ino
        self.ok("-c", 'exec "$0" plan "$1" --plan-out /dev/fd/7 7>"$2"', PROGRAM, self.loads(), path, program="sh")
        self.assertEqual(path.stat().st_ino, before)
        self.assertTrue(path.read_bytes().startswith(b"MFPL"))

    def test_a_file_in_a_folder_that_takes_no_other(self):
        if os.geteuid() == 0:
            self.skipTest("needs a user who is not root")
        loads = self.loads()
        old = self.write("old", "an older result")
        self.folder.chmod(0o555)
        self.addCleanup(self.folder.chmod, 0o755)
        self.ok("plan", loads, "--plan-out", old)
        self.assertTrue(old.read_bytes().startswith(b"MFPL"))
