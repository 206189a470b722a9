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
        self.rejected("bench", words=["command: missing", "head|forward|plan"])
        self.rejected("bench", "foo", words=["command: 'foo' is unknown", "head|forward|plan"])


class OnGpus(ProgramTest):
    """`bench head` and `bench forward`: what a build without CUDA says, and what needs no GPU to be wrong."""

    COMMANDS = ("head", "forward")

    def test_a_build_without_cuda_says_so(self):
        for command in self.COMMANDS:
            self.rejected("bench", command, words=[f"bench {command}", "MEGAFLUX_CUDA=ON"])
        self.rejected("bench", "forward", "--serve", words=["bench forward", "MEGAFLUX_CUDA=ON"])

    def test_options(self):
        for command in self.COMMANDS:
            with self.subTest(command=command):
                self.rejected("bench", command, "--route", "real", words=["--route", "real", "zipf-k3", "real-high"])
                self.rejected("bench", command, "--out", self.folder, words=["--out", "folder"])
                self.rejected("bench", command, "--lambda", 3, words=["--lambda", "backward"])
                self.rejected("bench", command, "--ranks", 2, "--devices", 3, words=["--devices", "3", "--ranks 2"])
                self.rejected("bench", command, "--trace", LAW, words=["--trace", "esft_law.npz", "real-*", "zipf-k3"])
                self.rejected("bench", command, "--experts", 0, words=["--experts", "0", "[1,"])

    def test_calibrate(self):
        self.rejected("calibrate", words=["calibrate", "MEGAFLUX_CUDA=ON"])
        self.rejected("calibrate", "--ranks", 1, words=["--ranks", "1", "[2,"])
        self.rejected("calibrate", "--ranks", 2, "--devices", 3, words=["--devices", "3", "--ranks 2"])
        self.rejected("calibrate", "--out", self.folder, words=["--out", "folder"])
        self.rejected("calibrate", "--hidden", 100, words=["hidden", "100", "64"])
        self.rejected("calibrate", "--slots", 9, words=["--slots", "9", "[2, 8]"])
        self.rejected("calibrate", "--topk", 65, words=["--topk", "65", "[1, 64]"])
        self.rejected("calibrate", "--experts", 7, words=["--experts", "7", "--ranks 8"])
        self.rejected("calibrate", "--experts", 8, "--topk", 9, words=["--topk", "9", "[1, 8]"])
        self.rejected("calibrate", "--experts", 8, "--topk", 8, words=["--topk: 8 of --experts 8", "--ranks 8", "hot-1.5"])

    def test_sides_of_a_forward(self):
        self.rejected("bench", "forward", "--sides", "fixed,idle", words=["--sides", "idle", "ungated", "second ideal"])
        self.rejected("bench", "forward", "--sides", "fixed", "--serve", words=["--sides", "fixed", "--serve"])
        self.rejected("bench", "forward", "--sides", "ungated", words=["--sides", "ungated", "--objective forward"])
        for side in ("staged", "fixed"):
            self.rejected("bench", "forward", "--slots", 0, "--sides", side, words=["--sides", side, "--slots 0"])
        self.rejected("bench", "forward", "--planner", "fixed", "--sides", "fixed", words=["--sides", "fixed", "--planner fixed"])
        self.rejected("bench", "forward", "--ranks", 1, "--sides", "second ideal", words=["--sides", "second", "--ranks 1"])

    def test_options_of_a_forward(self):
        self.rejected("bench", "forward", "--objective", "cost", "--passes", "both", words=["--passes", "both", "forward alone"])
        for option, value, limit in (("--hidden", 0, "[1, 65536]"), ("--inter", 0, "[1, 65536]"), ("--lag", 0, "[1, 64]"),
                                     ("--num-sms", -1, "[0, 1024]"), ("--pool-rows", -1, "[0,"),
                                     ("--replays", -1, "[0, 10000]"), ("--tokens", 0, "[1,")):
            with self.subTest(option=option):
                self.rejected("bench", "forward", option, value, words=[option, str(value), limit])
        self.rejected("bench", "forward", "--routes-out", self.folder, words=["--routes-out", "folder"])
        text = self.ok("bench", "forward", "--help").stdout
        for shown in ("--hidden N=4096", "--inter N=1536", "--lag N=2"):
            self.assertIn(shown, text)
