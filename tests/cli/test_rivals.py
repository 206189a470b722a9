"""The knobs of other systems' planners on the command line: every key does something, none is ignored."""

import re

from program import DATA_DIR, SOURCE_DIR, ProgramTest, call

# Eight experts on four ranks, rows of every source.
LOADS = "\n".join(["500,90,60,50,45,40,30,25", "200,310,30,25,20,20,15,13",
                   "100,200,20,15,15,10,10,8", "100,100,10,10,10,10,5,4"])
BASE = ["--ranks", 4, "--slots", 2]
# Steps on which the value changes the plan, with what else it takes.
EFFECTS = {
    "ultraep.margin": ("0.5", []),
    "ultraep.threshold": ("2", ["ultraep.margin=0"]),
    "ultraep.min_rows_per_replica": ("1", []),
    "ultraep.owner_may_be_empty": ("yes", []),
    "eplb.num_groups": ("4", ["eplb.num_nodes=2"]),
    "eplb.num_nodes": ("2", ["eplb.num_groups=4"]),
    "eplb.selection": ("nearest", []),
    "lplb.solver": ("interior-point", []),
    "llep.alpha": ("1.2", ["llep.min_rows=1"]),
    "llep.min_rows": ("1", []),
    "llep.gate": ("4", []),
    "echo.mode": ("one-shot", []),
    "echo.reclaim": ("0.5", []),
    "broadcast.gflops": ("1", []),
    "broadcast.link_mb_per_s": ("1000000000", []),
    # It scales all three times alike and shows in their rounding alone.
    "broadcast.hidden": ("1", ["broadcast.inter=1", "broadcast.gflops=1000000000",
                               "broadcast.link_mb_per_s=1000000000"]),
    "broadcast.inter": ("1", []),
}
# Cases that show a key where the common one does not.
OWN_LOADS = {"ultraep.owner_may_be_empty": "5,5,0,0",
             "ultraep.min_rows_per_replica": "0,1851,992,1,73,41,382,1203",
             "echo.mode": "0,24,691,0,208,274,435,148,252,17,28,5,0,390,30,0",
             "broadcast.hidden": "24,15,15,17,0,21\n5,0,0,0,11,0"}
OWN_BASE = {"ultraep.owner_may_be_empty": ["--ranks", 2, "--slots", 1],
            "ultraep.min_rows_per_replica": ["--ranks", 4, "--slots", 1],
            "echo.mode": ["--ranks", 4, "--slots", 1],
            "broadcast.hidden": ["--ranks", 2, "--slots", 2]}
OWN_OTHERS = {"ultraep.owner_may_be_empty": ["ultraep.margin=0"]}


def rivals(*settings):
    return [word for setting in settings for word in ("--rival", setting)]


class Rivals(ProgramTest):
    def keys(self):
        help_text = self.ok("plan", "--help").stdout
        return re.findall(r"^ +([a-z]+(?:\.[a-z_]+)?)=", help_text, re.MULTILINE)

    def plan(self, planner, *settings, loads=LOADS, base=BASE):
        return self.json("plan", self.loads(loads), *base, "--planner", planner, *rivals(*settings))

    def test_help_and_documents_name_every_key(self):
        keys = self.keys()
        self.assertEqual(len(keys), 20, keys)
        documents = (SOURCE_DIR / "docs" / "cli.md").read_text()
        for key in keys:
            with self.subTest(key=key):
                self.assertTrue(f"`{key}`" in documents, "docs/cli.md leaves it out")

    def test_every_knob_turns_something(self):
        tables = {"history", "lplb.source_of", "lplb.num_columns"}
        self.assertEqual(set(self.keys()) - tables, set(EFFECTS))
        for key, (value, others) in EFFECTS.items():
            with self.subTest(key=key):
                planner = key.split(".")[0]
                others = OWN_OTHERS.get(key, others)
                case = {"loads": OWN_LOADS.get(key, LOADS), "base": OWN_BASE.get(key, BASE)}
                before = self.plan(planner, *others, **case)
                after = self.plan(planner, *others, f"{key}={value}", **case)
                self.assertNotEqual(before["instances"], after["instances"])

    def test_history_places_by_earlier_steps(self):
        history = self.write("history.csv", "1,1,1,1,1,1,1,9000000000000\n")
        plan = self.plan("eplb", f"history={history}")
        hosts = {i["rank"] for i in plan["instances"] if i["expert"] == 7}
        self.assertGreater(len(hosts), 1)
        self.assertNotEqual(plan["instances"], self.plan("eplb")["instances"])

    def test_lplb_takes_a_topology(self):
        # Rank x hosts what rank x + 1 gives away.
        table = self.write("ring.txt", "1\n2\n3\n0\n")
        plan = self.plan("lplb", f"lplb.source_of={table}", "lplb.num_columns=1",
                         base=["--ranks", 4, "--slots", 1])
        for instance in plan["instances"]:
            if instance["slot"] >= 0:
                owner = plan["owner_of"][instance["expert"]]
                self.assertEqual((instance["rank"] + 1) % 4, owner)

    def test_the_last_value_counts(self):
        self.assertEqual(self.plan("llep", "llep.min_rows=1", "llep.alpha=1.2", "llep.alpha=1"),
                         self.plan("llep", "llep.min_rows=1"))

    def test_run_takes_them_too(self):
        self.rejected("run", "--planner", "llep", *rivals("llep.alpha=0"),
                      words=["--rival", "llep.alpha", "0", "[1e-06, 1000]"])

    def test_bench_takes_them_too(self):
        self.rejected("bench", "plan", "--planner", "llep", *rivals("llep.gate=-1"),
                      words=["--rival", "llep.gate", "-1"])


class BadRivals(ProgramTest):
    def bad(self, planner, setting, words, extra=()):
        self.rejected("plan", self.loads(LOADS), *BASE, "--planner", planner, *rivals(setting),
                      *extra, words=["--rival", *words])

    def test_no_value(self):
        self.bad("llep", "llep.alpha", ["'llep.alpha'", "KEY=VALUE"])
        self.bad("llep", "llep.alpha=", ["KEY=VALUE"])

    def test_unknown_key(self):
        self.bad("llep", "llep.beta=1", ["'llep.beta'", "llep.alpha"])

    def test_IC_59_a_knob_of_another_planner_is_not_ignored(self):
        self.bad("megaflux", "llep.alpha=1.1", ["llep.alpha", "--planner llep", "megaflux plans"])

    def test_values_outside_their_limits(self):
        for planner, setting, limit in [
                ("ultraep", "ultraep.margin=11", "[0, 10]"),
                ("ultraep", "ultraep.min_rows_per_replica=0", "[1, 2147483647]"),
                ("eplb", "eplb.num_groups=9", "[1, 8]"),
                ("eplb", "eplb.num_nodes=5", "[1, 4]"),
                ("eplb", "eplb.selection=hash", "round-robin|each-source|nearest"),
                ("lplb", "lplb.solver=simplex", "exact|interior-point"),
                ("echo", "echo.mode=both", "queue|one-shot"),
                ("echo", "echo.reclaim=x", "no number"),
                ("broadcast", "broadcast.hidden=65537", "[1, 65536]")]:
            with self.subTest(setting=setting):
                key, value = setting.split("=")
                self.bad(planner, setting, [key, value, limit])

    def test_divisors(self):
        result = call("plan", self.loads(LOADS), *BASE, "--planner", "eplb",
                      *rivals("eplb.num_groups=3"))
        self.assertEqual(result.returncode, 2)
        self.assertIn("does not divide E = 8", result.stderr)

    def test_history_of_another_size(self):
        history = self.write("history.csv", "1,2,3\n")
        self.bad("eplb", f"history={history}", ["history", "3 values, 8 expected"])

    def test_history_that_is_not_there(self):
        self.bad("eplb", "history=nowhere.csv", ["history", "nowhere.csv"])

    def test_a_topology_needs_both_and_has_to_fit(self):
        table = self.write("ring.txt", "1,2,0\n")
        self.bad("lplb", f"lplb.source_of={table}", ["lplb.num_columns", "missing"])
        self.bad("lplb", f"lplb.source_of={table}", ["3 values", "4 ranks"],
                 extra=rivals("lplb.num_columns=1"))


class IgnoredOptions(ProgramTest):
    def test_IC_59_lambda_needs_the_backward_objective(self):
        for command in [["plan", self.loads()], ["bench", "plan"], ["run"],
                        ["simulate", DATA_DIR / "esft_law.npz"]]:
            self.rejected(*command, "--lambda", 12, words=["--lambda", "12", "backward", "forward"])

    def test_IC_59_a_given_plan_is_not_planned(self):
        self.rejected("run", "--plan", "step.mfpl", "--planner", "megaflux",
                      words=["--planner", "megaflux", "--plan", "step.mfpl"])
        self.rejected("run", "--plan", "step.mfpl", *rivals("llep.alpha=1"),
                      words=["--rival", "llep.alpha=1", "--plan"])
