"""Part of gpu_program.py: `bench forward` and `calibrate`."""

import json
import re
import statistics
import subprocess

from program import PROGRAM, NeedsGpu


class Forwards(NeedsGpu):
    """`bench forward`."""

    def forward(self, *options, samples=3):
        """Records of a small `bench forward`, by figure."""
        lines = self.folder / "forward.jsonl"
        lines.unlink(missing_ok=True)
        shown = self.ok("bench", "forward", "--experts", 16, "--topk", 2, "--tokens", 256, "--hidden", 256, "--inter", 128,
                        "--replays", samples, "--commit", "abc", "--out", lines, *options).stdout
        records = [json.loads(line) for line in lines.read_text().splitlines()]
        for record in records:
            machine = ["machine"] if "objective=cost" in record["case"] else []
            self.assertEqual(["figure", "value", "unit", "case", "samples", "clock", "gpu_uuid", "commit", "command", *machine],
                             list(record))
            self.assertEqual(samples, len(record["samples"]))
        return shown, {(record["figure"], record["case"]): record for record in records}

    def test_forwards_are_timed(self):
        shown, records = self.forward("--ranks", 4, "--route", "hot-1.5")
        case = "op=forward,H=256,I=128,E=16,K=2,P=4,T=256,{},objective=forward,exec=mega,ranks=virtual"
        planned = case.format("s=2,route=hot-1.5,planner=megaflux")
        staged = planned.replace("exec=mega", "exec=staged")
        self.assertEqual({("layer_ms", planned), ("layer_ms", staged), ("self_ratio", planned), ("skew_speedup", planned),
                          ("pipelined_over_staged", planned), ("ideal_fraction", planned),
                          ("balanced_fraction", planned),
                          ("layer_ms", case.format("s=0,route=hot-1.5,planner=fixed")),
                          ("layer_ms", case.format("s=0,route=balanced,planner=fixed"))},
                         set(records))
        for figure in ("self_ratio", "skew_speedup", "pipelined_over_staged", "ideal_fraction", "balanced_fraction"):
            record = records[figure, planned]
            self.assertEqual(sorted(a / b for a, b in record["samples"])[1], record["value"])
        for figure, side in (("self_ratio", planned), ("pipelined_over_staged", staged)):
            self.assertEqual(records["layer_ms", side]["samples"], [ms for ms, _ in records[figure, planned]["samples"]])
        for word in ("virtual", "kappa", "max/mean 1.500", "staged", "resident", "second ideal", "math ms", "skew_speedup",
                     "weights exposed"):
            self.assertIn(word, shown)

    def test_the_gate_is_held_against_both_of_its_choices(self):
        shown, records = self.forward("--ranks", 4, "--route", "hot-1.5", "--objective", "cost", "--sides", "fixed,ungated")
        self.assertEqual({"layer_ms", "self_ratio", "skew_speedup", "gate_ratio"}, {figure for figure, _ in records})
        case, = (case for figure, case in records if figure == "gate_ratio")
        self.assertIn("objective=cost", case)
        self.assertEqual(("h200", 335000), tuple(records["gate_ratio", case]["machine"][key] for key in ("name", "link_mb_per_s")))
        record = records["gate_ratio", case]
        self.assertLessEqual(record["value"], records["skew_speedup", case]["value"])
        self.assertAlmostEqual(statistics.median(a / b for a, b in record["samples"]), record["value"])
        better = [side for side, _ in record["samples"]]
        self.assertIn(better, [timed["samples"] for (figure, name), timed in records.items()
                               if figure == "layer_ms" and name != case])
        for word in ("planned", "fixed", "ungated"):
            self.assertIn(word, shown)
        self.assertRegex(shown, "(?m)^gate_plan ((fixed|ungated), (not )?the better one|of its own)$")
        self.assertNotRegex(shown, "(?m)^(second )?ideal ")

    def test_one_rank_and_fixed_placement_have_less_to_compare(self):
        _, records = self.forward("--ranks", 1, "--route", "balanced", samples=1)
        self.assertEqual({"layer_ms", "self_ratio", "balanced_fraction"}, {figure for figure, _ in records})
        _, records = self.forward("--ranks", 2, "--planner", "fixed", "--slots", 0, samples=1)
        self.assertEqual({"layer_ms", "self_ratio", "ideal_fraction", "balanced_fraction"}, {figure for figure, _ in records})

    def test_a_forward_is_served(self):
        routes = self.folder / "routes.npz"
        done = subprocess.run(
            [PROGRAM, "bench", "forward", "--serve", "--ranks", "1", "--experts", "8", "--topk", "2", "--tokens", "128",
             "--hidden", "128", "--inter", "128", "--route", "balanced", "--routes-out", str(routes)],
            input="layer 2 0\ngemms 3 2\nlayer 0 0\n", capture_output=True, text=True, timeout=120)
        ready, layer, gemms = done.stdout.split()
        self.assertEqual("ready", ready)
        self.assertGreater(float(layer), float(gemms))
        self.assertEqual(2, done.returncode)
        self.assertIn("layer 0 is outside [1, 10000]", done.stderr)
        self.assertIn("8", self.ok("plan", routes, "--ranks", 1).stdout)

    def test_shapes_of_a_forward_are_checked(self):
        self.rejected("bench", "forward", "--hidden", 100, "--inter", 64, words=["--hidden: 100 ", "64"])
        self.rejected("bench", "forward", "--dtype", "fp32", words=["--dtype: fp32", "bf16"])
        self.rejected("bench", "forward", "--num-sms", 133, words=["--num-sms: 133 ", "[1, "])

    def test_too_little_memory_for_all_sides(self):
        routes = self.folder / "routes.npz"
        case = ("bench", "forward", "--experts", 1024, "--tokens", 128, "--hidden", 8192, "--inter", 8192, "--route",
                "hot-1.5", "--routes-out", routes)
        # Weights of 2 x 412 GB: contiguous owners, and those of the second ideal. A server holds the planned side alone.
        for options, weights in (((), "825 GB"), (("--serve",), "412 GB")):
            self.rejected(*case, *options, words=["bench forward: not run: memory; device 0 needs ", f"weights {weights}",
                                                  "replica slots", "row pools", "activations", "tokens", "results", " free"])
            self.assertFalse(routes.exists())

    def test_what_is_said_to_fit_does(self):
        case = ("bench", "forward", "--ranks", 1, "--experts", 64, "--topk", 64, "--hidden", 16384, "--inter", 64, "--route",
                "balanced", "--replays", 1)
        said = self.rejected(*case, "--tokens", 65536, words=["not run: memory"])
        needs, free = (float(found) for found in re.search(r"needs ([\d.]+) GB .* has ([\d.]+) GB free", said).groups())
        # All but the weights grows with the tokens.
        self.ok(*case, "--tokens", int(0.95 * 65536 * free / needs))


class Calibrates(NeedsGpu):
    """`calibrate`."""

    LAYER = ("--experts", 16, "--topk", 2, "--hidden", 1024, "--inter", 512, "--ranks", 4)

    def test_a_machine_file_is_measured_and_read(self):
        path = self.folder / "machine.json"
        shown = self.ok("calibrate", *self.LAYER, "--tokens", 2048, "--out", path).stdout
        machine = json.loads(path.read_text())
        self.assertEqual(["name", "gflops", "link_mb_per_s", "send_mb_per_s", "plan_ns", "pre_gate_ns",
                          "copy_latency_ns", "round_ns"], list(machine))
        self.assertIn("4 ranks, H 1024 I 512", machine["name"])
        self.assertIn(machine["name"], shown)
        # No rank is slower than a CPU or faster than the device.
        self.assertTrue(1e3 < machine["gflops"] < 1e6, machine)
        self.assertTrue(1e3 < machine["link_mb_per_s"] < 1e7, machine)
        # One rank that three pull from is no slower than a pull, here where all share a device.
        self.assertTrue(machine["link_mb_per_s"] < machine["send_mb_per_s"] < 1e7, machine)
        self.assertTrue(1e3 < machine["pre_gate_ns"] < machine["plan_ns"] < 1e6, machine)
        loads = self.write("loads.csv", ",".join(["9000"] + 15 * ["100"]))
        plan = self.json("plan", loads, "--ranks", 4, "--objective", "cost", "--hidden", 1024, "--inter", 512, "--machine", path)
        self.assertIn(plan["gate"]["decision"], ("replicate", "fixed", "pre-gate"))

    def test_standard_output_holds_the_file_alone(self):
        text = self.ok("calibrate", *self.LAYER, "--tokens", 2048, "--name", "mine", "--slots", 2, "--out", "-").stdout
        self.assertEqual("mine", json.loads(text)["name"])

    def test_too_few_tokens_are_named(self):
        self.rejected("calibrate", *self.LAYER, "--tokens", 16, words=["--tokens: 16 ", "blocks"])
