"""`megaflux bench plan`: JSON lines, one figure each."""

import json

from program import DATA_DIR, ProgramTest, call

KEYS = {"schema", "figure", "value", "unit", "case", "samples", "clock", "cpu", "commit",
        "command"}
LAW = DATA_DIR / "esft_law.npz"


class BenchPlan(ProgramTest):
    def records(self, *options):
        result = call("bench", "plan", *options, "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def test_records(self):
        records = self.records(LAW, "--cases", 5, "--commit", "abc", "--repeats", 2)
        figures = {record["figure"]: record for record in records}
        self.assertIn("plan_host_us", figures)
        self.assertIn("plan_p99_ratio", figures)
        for record in records:
            self.assertEqual(set(record), KEYS)
            self.assertEqual(len(record["samples"]), 5)
            self.assertEqual(record["commit"], "abc")
            self.assertEqual(record["command"],
                             "megaflux bench plan esft_law.npz --cases 5 --commit abc --repeats 2 --json -")
            self.assertEqual(record["case"], "op=plan,E=64,P=8,s=2,route=traces,"
                             "planner=megaflux,objective=forward,exec=cpu")
            self.assertRegex(record["clock"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertGreater(figures["plan_host_us"]["value"], 0)
        self.assertGreaterEqual(figures["plan_p99_ratio"]["value"], 1)

    def test_quality_is_repeatable_and_seeded(self):
        def ratios(*options):
            return next(r for r in self.records(LAW, "--cases", 5, *options)
                        if r["figure"] == "plan_mean_copies")["samples"]
        self.assertEqual(ratios(), ratios())
        self.assertNotEqual(ratios(), ratios("--seed", 5))

    def test_folder_groups_by_experts(self):
        cases = {record["case"] for record in self.records(DATA_DIR, "--cases", 2, "--repeats", 1)}
        self.assertGreaterEqual(len(cases), 4)

    def test_table(self):
        text = self.ok("bench", "plan", LAW, "--cases", 3).stdout
        for word in ["median us", "p99 us", "p99 max/tau", "copies", "worst"]:
            self.assertIn(word, text)

    def test_bad_input(self):
        self.rejected("bench", "plan", self.folder, words=["TRACE", "0 traces", "at least 1"])
        self.rejected("bench", "plan", self.loads(), words=["TRACE", "loads.csv", ".npz"])
        self.rejected("bench", "plan", LAW, "--cases", 0, words=["--cases", "0", "[1,"])
        self.rejected("bench", words=["command", "plan", "head"])


class BenchHead(ProgramTest):
    def test_a_build_without_cuda_says_so(self):
        self.rejected("bench", "head", words=["bench head", "MEGAFLUX_CUDA=ON"])
        self.rejected("bench", "head", "--route", "real", words=["--route", "real", "zipf-k3", "real-high"])
        self.rejected("bench", "head", "--out", self.folder, words=["--out", "folder"])
        self.rejected("bench", "head", "--lambda", 3, words=["--lambda", "backward"])
