"""`megaflux run --inject`: each fault gives status 1 and is caught by the check that is there for it."""

from program import ProgramTest, call

SMALL = ["--tokens", 1024, "--hidden", 64, "--inter", 48, "--block-rows", 16]
CAUGHT_BY = {
    "stale-slot": "replicated-y",
    "drop-row": "replicated-y",
    "swap-k-order": "y-bitwise",
    "skip-replica-gradient": "replicated-dw",
    "wrong-owner": "replicated-y",
    "lost-flag": "replicated-finished",
}
# In bf16 the order of a token's sum shows in about 1 element of 20,000: too few for a small run.
OPTIONS = {"swap-k-order": ["--dtype", "fp32"]}


class Inject(ProgramTest):
    def test_each_fault_is_caught(self):
        for fault, check in CAUGHT_BY.items():
            with self.subTest(fault):
                run = self.json("run", *SMALL, "--inject", fault, "--deadline", 2,
                                *OPTIONS.get(fault, []), status=1)
                self.assertIn(check, run["failed_checks"])
                self.assertFalse(run["all_hold"])
                # The execution that was left alone is right.
                self.assertFalse([c for c in run["failed_checks"] if c.startswith("fixed")])

    def test_the_report_names_fault_and_check(self):
        result = call("run", *SMALL, "--inject", "wrong-owner")
        self.assertEqual(result.returncode, 1)
        last = result.stdout.strip().splitlines()[-1]
        self.assertIn("replicated-y", last)
        self.assertIn("wrong-owner was caught", last)

    def test_a_lost_flag_names_who_waited_for_what(self):
        result = call("run", *SMALL, "--inject", "lost-flag", "--deadline", 1)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"rank \d+ \(\w+\) timed out .*x_full\[\d+\]")

    def test_a_fault_without_a_place_to_act_is_refused(self):
        self.rejected("run", *SMALL, "--slots", 0, "--inject", "stale-slot",
                      words=["--inject", "stale-slot", "replica"])
        self.rejected("run", *SMALL, "--forward-only", "--inject", "skip-replica-gradient",
                      words=["--inject", "skip-replica-gradient", "--forward-only"])
        self.rejected("run", "--backend", "cuda", "--inject", "skip-replica-gradient",
                      words=["--inject", "skip-replica-gradient", "backward", "--backend cuda"])
        family = ["--route", "balanced", "--tokens", 512, "--hidden", 32, "--inter", 16]
        self.rejected("run", *family, "--experts", 8, "--topk", 1, "--inject", "swap-k-order",
                      words=["--inject", "swap-k-order", "topk is 1"])
        self.rejected("run", *family, "--experts", 1, "--topk", 1, "--ranks", 2, "--slots", 1,
                      "--inject", "wrong-owner", words=["--inject", "wrong-owner", "another expert"])
