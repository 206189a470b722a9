"""The program of preset cuda: `--backend cuda` of `doctor` and `plan`, with a GPU and without one.

Ends with a line of counts, and with status 77 where there is no GPU for the tests that need one. Standard library only.
"""

import json
import random
import sys
import unittest

from program import ProgramTest, call

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
        self.rejected("plan", many, "--backend", "cuda", words=["num_experts", "2048", "1024"])
        self.rejected("plan", self.loads(), "--ranks", 4, "--slots", 9, "--backend", "cuda",
                      words=["replica_slots", "9", "8"])
        self.rejected("plan", self.loads(), "--ranks", 256, "--backend", "cuda", words=["num_ranks", "256", "128"])

    def test_a_device_without_the_backend_is_refused(self):
        self.rejected("plan", self.loads(), "--device", 1, words=["--device", "1", "--backend cuda"])

    def test_doctor_says_what_is_there(self):
        everything = self.json("doctor")
        cuda = self.json("doctor", "--backend", "cuda", status=0 if has_gpu() else 1)
        self.assertEqual(["cuda"], [backend["name"] for backend in cuda["backends"]])
        self.assertTrue(cuda["cuda"]["in_build"])
        self.assertRegex(cuda["cuda"]["runtime"], r"^\d+\.\d+$")
        self.assertEqual(everything["cuda"], cuda["cuda"])
        self.assertEqual(has_gpu(), cuda["cuda"]["obstacle"] is None)
        self.assertEqual(has_gpu(), cuda["backends"][0]["available"])
        for feature in cuda["backends"][0]["features"]:
            self.assertTrue(feature["detail"], feature)

    def test_a_machine_without_a_gpu_is_named(self):
        if has_gpu():
            self.skipTest("needs a machine without a GPU")
        self.rejected("plan", self.loads(), "--ranks", 4, "--backend", "cuda", words=["--backend cuda", "needs a GPU"])


class WithGpu(ProgramTest):
    """What takes a GPU."""

    def setUp(self):
        super().setUp()
        if not has_gpu():
            self.skipTest("needs a GPU")

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


def has_gpu():
    """Asked once; the doctor's status says it."""
    if not hasattr(has_gpu, "answer"):
        has_gpu.answer = call("doctor", "--backend", "cuda").returncode == 0
    return has_gpu.answer


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
