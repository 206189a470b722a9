"""The program of preset cuda, with a GPU and without one: `--backend cuda` of `doctor`, `plan` and `run`, and the benches.

Ends with a line of counts, and with status 77 where there is no GPU for the tests that need one. Standard library only.
"""

import json
import random
import sys
import unittest

from gpu_faults import RUN, SMALL, Faults, RefusedFaults  # whose tests are run with those of this module
from gpu_forward import Calibrates, Forwards  # and so are these
from program import DATA_DIR, NeedsGpu, ProgramTest, call, has_gpu

SKIPPED = 77
PLANNERS = {"megaflux": ("forward", "backward", "cost"), "paper": ("forward", "backward"), "quota": ("forward", "cost"),
            "fixed": ("forward",)}
RIVALS = ("ultraep", "eplb", "lplb", "llep", "echo", "moonep", "broadcast")
SHAPE = ("--hidden", 2048, "--inter", 1408)


class AnyMachine(ProgramTest):
    """What holds with a GPU and without one."""

    def test_rivals_run_on_the_host_alone(self):
        for rival in RIVALS:
            with self.subTest(rival=rival):
                self.rejected("plan", self.loads(), "--ranks", 4, "--backend", "cuda", "--planner", rival,
                              words=["planner", rival, "megaflux, paper, quota and fixed"])

    def test_limits_of_a_device_are_named(self):
        many = self.loads(",".join(["5"] * 2048))
        self.rejected("plan", many, "--backend", "cuda", words=["LOADS: num_experts: 2048, ", "1024"])
        self.rejected("plan", self.loads(), "--ranks", 4, "--slots", 9, "--backend", "cuda", words=["--slots: 9, ", "8"])
        self.rejected("plan", self.loads(), "--ranks", 256, "--backend", "cuda", words=["--ranks: 256, ", "128"])
        for bench in ("head", "forward"):
            for options, words in ((("--ranks", 256, "--devices", 4), ["--ranks: 256", "128"]),
                                   (("--ranks", 67), ["--devices: 1", "--ranks 67", "66"]),
                                   (("--devices", 9), ["--devices: 9", "--ranks"]),
                                   (("--experts", 2048), ["--experts: 2048", "1024"]),
                                   (("--topk", 65), ["--topk: 65 ", "[1, 64]"]), (("--slots", 9), ["--slots: 9", "8"]),
                                   (("--planner", "eplb"), ["--planner: eplb"])):
                with self.subTest(bench=bench, options=options):
                    self.rejected("bench", bench, *options, words=words)
        for options, words in ((("--hidden", 65), ["--hidden: 65 ", "64"]), (("--inter", 96), ["--inter: 96 ", "64"]),
                               (("--dtype", "fp32"), ["--dtype: fp32", "bf16"]),
                               (("--pool-rows", 1), ["--pool-rows: 1 ", "[128, "]), (("--lag", 65), ["--lag: 65 ", "[1, 64]"]),
                               (("--tokens", 1 << 20, "--topk", 64, "--ranks", 32), ["--tokens: 1048576 ", "2^31"]),
                               (("--serve", "--out", "x"), ["--out", "x", "--serve"]),
                               (("--serve", "--json", "-"), ["--json", "-", "--serve"]),
                               (("--serve", "--replays", 3), ["--replays", "3", "--serve"])):
            self.rejected("bench", "forward", *options, words=words)

    def test_a_device_without_the_backend_is_refused(self):
        self.rejected("plan", self.loads(), "--device", 1, words=["--device", "1", "--backend cuda"])

    def test_limits_of_a_layer_are_named(self):
        family = ("--route", "balanced", "--tokens", 64)
        for options, words in ((("--hidden", 100), ["--hidden: 100 ", "multiple of 64", "--backend cuda"]),
                               (("--inter", 96), ["--inter: 96 ", "multiple of 64", "--backend cuda"]),
                               (("--dtype", "fp32"), ["--dtype: fp32", "bf16", "--backend cuda"]),
                               ((*family, "--experts", 2048), ["--experts: 2048", "1024"]),
                               (("--slots", 9), ["--slots: 9", "8"]),
                               (("--capacity", 128), ["--capacity: 128 ", "256"]),
                               (("--ranks", 67), ["--devices: 1", "--ranks 67", "66"]),
                               (("--devices", 9), ["--devices: 9", "--ranks 8"]),
                               (("--planner", "eplb"), ["--planner: eplb"])):
            with self.subTest(options=options):
                self.rejected(*RUN, *options, words=words)

    def test_what_takes_a_backward_is_refused_by_name(self):
        self.rejected(*RUN, "--backward", words=["--backward", "--backend cuda", "forward"])
        self.rejected(*RUN, "--passes", "both", words=["--passes: both", "backward", "later", "--backend cuda"])
        self.rejected(*RUN, "--z", "recompute", words=["--z", "recompute", "--backend cuda", "forward"])

    def test_doctor_says_what_is_there(self):
        everything = self.json("doctor")
        cuda = self.json("doctor", "--backend", "cuda", status=0 if has_gpu() else 1)
        self.assertEqual(["cuda"], [backend["name"] for backend in cuda["backends"]])
        self.assertTrue(cuda["cuda"]["in_build"])
        self.assertRegex(cuda["cuda"]["runtime"], r"^\d+\.\d+$")
        self.assertEqual(everything["cuda"], cuda["cuda"])
        self.assertEqual(has_gpu(), cuda["cuda"]["obstacle"] is None)
        self.assertEqual(has_gpu(), cuda["backends"][0]["available"])
        features = {feature["name"]: feature for feature in cuda["backends"][0]["features"]}
        for feature in features.values():
            self.assertTrue(feature["detail"], feature)
        self.assertEqual(has_gpu(), features["layer forward"]["supported"])
        self.assertFalse(features["layer backward"]["supported"])

    def test_a_machine_without_a_gpu_is_named(self):
        if has_gpu():
            self.skipTest("needs a machine without a GPU")
        self.rejected("plan", self.loads(), "--ranks", 4, "--backend", "cuda", words=["--backend cuda", "needs a GPU"])
        self.rejected("bench", "forward", words=["bench forward", "needs a GPU"])
        self.rejected(*RUN, words=["--backend cuda", "needs a GPU"])


class Plans(NeedsGpu):
    """Planner, head and doctor."""

    def same_plan(self, *arguments):
        """Both backends write the same bytes and, but for the device's name, the same JSON."""
        host, device = self.folder / "host.mfpl", self.folder / "device.mfpl"
        by_host = self.json("plan", *arguments, "--plan-out", host)
        by_device = self.json("plan", *arguments, "--plan-out", device, "--backend", "cuda")
        self.assertEqual(host.read_bytes(), device.read_bytes())
        self.assertIsNone(by_host.pop("device"))
        self.assertTrue(by_device.pop("device"))
        self.assertEqual(by_host, by_device)
        return by_host

    def test_devices(self):
        cuda = self.json("doctor", "--backend", "cuda")["cuda"]
        self.assertGreaterEqual(len(cuda["devices"]), 1)
        for ordinal, device in enumerate(cuda["devices"]):
            self.assertRegex(device["uuid"], r"^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
            self.assertGreater(device["sms"], 0)
            self.assertGreater(device["memory_bytes"], 1 << 30)
            self.assertEqual(len(device["peers"]), len(cuda["devices"]))
            self.assertTrue(device["peers"][ordinal])

    def test_plans_are_equal(self):
        draw = random.Random(11)
        for ranks, experts, slots in ((4, 8, 1), (8, 64, 2), (8, 128, 2), (7, 60, 8), (64, 256, 2)):
            rows = [",".join(str(int(draw.paretovariate(0.8))) for _ in range(experts)) for _ in range(ranks)]
            loads = self.loads("\n".join(rows))
            for planner, objectives in PLANNERS.items():
                for objective in objectives:
                    with self.subTest(ranks=ranks, experts=experts, planner=planner, objective=objective):
                        self.same_plan(loads, "--ranks", ranks, "--slots", slots, "--planner", planner, "--objective",
                                       objective, "--block-rows", 16, *SHAPE)

    def test_tables_go_to_the_device(self):
        loads = self.loads("900,700,120,100,90,80,60,50")
        owners = self.write("owners.txt", "3 3 2 2 1 1 0 0")
        speeds = self.write("speed.txt", "1024 512 1024 1024")
        resident = self.write("resident.txt", "7 -1 -1 0")
        plan = self.same_plan(loads, "--ranks", 4, "--slots", 1, "--block-rows", 16, "--owners", owners, "--speed",
                              speeds, "--resident", resident, "--domains", "0-1,2-3")
        self.assertEqual([3, 3, 2, 2, 1, 1, 0, 0], plan["owner_of"])

    def test_heads_are_timed(self):
        lines = self.folder / "head.jsonl"
        shape = ("--experts", 16, "--topk", 2, "--tokens", 64, "--replays", 3, "--commit", "abc", "--out", lines)
        for ranks in (1, 2):
            self.ok("bench", "head", "--ranks", ranks, *shape)
        records = [json.loads(line) for line in lines.read_text().splitlines()]
        self.assertEqual(["real", "virtual"], [record["case"].split("ranks=")[1] for record in records])
        for ranks, record in enumerate(records, 1):
            self.assertEqual(["figure", "value", "unit", "case", "samples", "clock", "gpu_uuid", "commit", "command"],
                             list(record))
            self.assertEqual(("head_us", "us", "abc"), (record["figure"], record["unit"], record["commit"]))
            self.assertTrue(record["case"].startswith(f"op=head,E=16,K=2,P={ranks},T=64,s=2,route=zipf-k3,"
                                                      "planner=megaflux,objective=forward,ranks="))
            self.assertEqual(sorted(record["samples"])[1], record["value"])
            self.assertRegex(record["gpu_uuid"], "^GPU-")

    def test_orphans(self):
        found = call("plan", self.loads(), "--ranks", 4, "--inactive", "0", "--backend", "cuda")
        self.assertEqual(1, found.returncode)
        self.assertIn("inactive: 0, 1", found.stderr)

    def test_a_device_that_is_not_there(self):
        self.rejected("plan", self.loads(), "--ranks", 4, "--backend", "cuda", "--device", 99, words=["--backend cuda", "99"])

    def test_the_report_names_the_device(self):
        text = self.ok("plan", self.loads(), "--ranks", 4, "--backend", "cuda").stdout
        self.assertIn("byte for byte as by the host", text)


class Layers(NeedsGpu):
    """The forward of a layer."""

    def layer(self, *options, status=0):
        return self.json(*RUN, "--tokens", 512, *SMALL, *options, status=status)

    def test_a_layer_holds_what_the_cpu_holds(self):
        run = self.layer()
        self.assertTrue(run["all_hold"])
        names = {check["name"] for check in run["checks"]}
        for placement in ("fixed", "replicated"):
            for check in ("finished", "plan", "legal", "rows", "repeatable", "y"):
                self.assertIn(f"{placement}-{check}", names)
        self.assertEqual({"y": True, "dx": None}, run["bitwise"])
        self.assertIn("bf16-rounding", names)
        host = self.json("run", "--forward-only", "--tokens", 512, *SMALL)
        for key in ("imbalance_before", "imbalance_after", "replicas", "instances", "rows_from_slots"):
            self.assertEqual(host[key], run[key], key)
        for placement in ("fixed", "replicated"):
            for key in ("plan_hash", "load_rows", "load_blocks", "tau", "remote_rows", "peak_rows"):
                self.assertEqual(host[placement][key], run[placement][key], key)
            self.assertEqual(host[placement]["forward"]["rows"], run[placement]["forward"]["rows"])

    def test_the_json_says_where_and_how_much(self):
        run = self.layer("--forward-only")
        self.assertEqual(("cuda", "forward", None), tuple(run["case"][key] for key in ("backend", "passes", "z")))
        self.assertEqual(1, len(run["devices"]))
        device = run["devices"][0]
        self.assertRegex(device["uuid"], "^GPU-")
        self.assertEqual((0, 0, 8, True), tuple(device[key] for key in ("ordinal", "first_rank", "ranks", "virtual")))
        for placement in ("fixed", "replicated"):
            found = run[placement]
            self.assertEqual(found["rank_memory_bytes"], sum(found["rank_memory_parts"].values()))
            self.assertGreater(found["forward"]["layer_ms"], 0)
            self.assertGreater(found["forward"]["head_us"], 0)
            self.assertIsNone(found["backward"])
        self.assertEqual(0, run["fixed"]["rank_memory_parts"]["replica_slots"])
        self.assertEqual(2 * 3 * 64 * 64 * 2, run["replicated"]["rank_memory_parts"]["replica_slots"])
        self.assertNotIn("bytes", run["replicated"]["forward"])
        self.assertFalse([note for note in run["notes"] if "backward" in note])

    def test_the_report_says_aloud_what_differs(self):
        text = self.ok(*RUN, "--tokens", 512, *SMALL).stdout
        for word in ("device 0", "GPU-", "ranks 0-7, virtual", "backward on GPUs comes later",
                     "virtual ranks share", "byte for byte as the host", "bitwise", "checks hold"):
            self.assertIn(word, text)

    def test_ranks_slots_planners_and_families(self):
        for options in (("--ranks", 1, "--slots", 0), ("--ranks", 2, "--slots", 1), ("--ranks", 16),
                        ("--planner", "paper"), ("--planner", "quota"), ("--planner", "fixed"), ("--slots", 0),
                        ("--slots", 8), ("--ranks", 66), ("--objective", "backward")):
            with self.subTest(options=options):
                self.assertTrue(self.layer(*options)["all_hold"])
        for family, experts, topk, ranks in (("balanced", 128, 8, 8), ("balanced", 1024, 8, 8), ("one-hot", 256, 8, 8),
                                             ("zipf-k6", 128, 6, 16), ("near", 8, 2, 2)):
            with self.subTest(family=family):
                run = self.layer("--route", family, "--experts", experts, "--topk", topk, "--ranks", ranks)
                self.assertTrue(run["all_hold"])

    def test_shapes(self):
        for hidden, inter in ((256, 192), (192, 320), (1088, 64)):
            with self.subTest(hidden=hidden, inter=inter):
                self.assertTrue(self.json(*RUN, "--tokens", 512, "--hidden", hidden, "--inter", inter)["all_hold"])

    def test_a_small_pool_goes_round(self):
        run = self.layer("--capacity", 256)
        self.assertTrue(run["all_hold"])
        self.assertEqual(256, run["replicated"]["pool_rows"])
        self.assertGreater(max(run["replicated"]["forward"]["rounds"]), 1)

    def test_large_layers_are_sampled_and_still_repeat(self):
        run = self.json(*RUN, "--tokens", 4096, "--hidden", 1024, "--inter", 704)
        self.assertEqual("sampled", run["reference"])
        self.assertIn("replicated-repeatable", [check["name"] for check in run["checks"]])
        self.assertTrue(run["all_hold"])

    def test_a_plan_from_outside(self):
        plan = self.folder / "step.mfpl"
        made = self.json("plan", DATA_DIR / "esft_law.npz", "--layer", 18, "--planner", "paper", "--plan-out", plan)
        run = self.json(*RUN, "--hidden", 64, "--inter", 64, "--plan", plan)
        self.assertTrue(run["all_hold"])
        self.assertEqual("outside", run["case"]["planner"])
        self.assertEqual(made["instances"], run["instances"])
        self.assertEqual(made["hash"], run["replicated"]["plan_hash"])
        self.assertNotIn("replicated-plan", [check["name"] for check in run["checks"]])

    def test_owners_anywhere(self):
        owners = self.write("owners.txt", ",".join(str((e * 5) % 8) for e in range(64)))
        self.assertTrue(self.layer("--owners", owners)["all_hold"])

    def test_orphans_fail_with_one(self):
        run = self.layer("--inactive", 3, status=1)
        self.assertIn("fixed-finished", run["failed_checks"])
        self.assertNotIn("fixed-plan", run["failed_checks"])
        detail = next(check["detail"] for check in run["checks"] if check["name"] == "fixed-finished")
        self.assertIn("no legal plan", detail)

    def test_too_little_memory_names_the_parts(self):
        self.rejected("run", "--backend", "cuda", "--route", "balanced", "--experts", 1024, "--tokens", 8192, "--hidden",
                      16384, "--inter", 16384, words=["--backend cuda: not run: memory; device 0 needs ", "weights 1.65 TB", "tokens", "results", " free"])

    def test_a_device_that_is_not_there(self):
        self.rejected(*RUN, "--ranks", 64, "--devices", 64, words=["--backend cuda", "device", "is outside"])

    def test_two_devices(self):
        if len(self.json("doctor", "--backend", "cuda")["cuda"]["devices"]) < 2:
            self.skipTest("needs two GPUs")
        run = self.layer("--devices", 2, "--ranks", 4)
        self.assertTrue(run["all_hold"])
        self.assertEqual([(0, 2), (2, 2)], [(device["first_rank"], device["ranks"]) for device in run["devices"]])


def main():
    result = unittest.TextTestRunner(verbosity=1).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    failed = len({test.id().split(" ")[0] for test, _ in result.failures + result.errors})
    skipped = len(result.skipped)
    for test, reason in result.skipped:
        print(f"!!! {test.id()} was SKIPPED: {reason}")
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    if failed:
        return 1
    return 0 if has_gpu() else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
