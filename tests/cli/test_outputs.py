"""Output files: each has its own."""

from program import DATA_DIR, ProgramTest

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
        self.refused("import", self.loads(), "--json", "./b.npz", "-o", "b.npz", words=["--json", "--output"])
        for name in ("b.manifest.json", "b.chunk000000.npz"):
            self.refused("export", TRACE, "--json", self.folder / name, "-o", "b", words=["--json", "--output"])

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
