"""`megaflux run`: the default run, the JSON contract, the options."""

import json
import os
import re
import resource
import subprocess

from program import DATA_DIR, PROGRAM, ProgramTest

SMALL = ["--tokens", 512, "--hidden", 64, "--inter", 48, "--block-rows", 16]
EXPERT_BYTES = 3 * 64 * 48 * 2


class DefaultRun(ProgramTest):
    def test_passes_and_reports(self):
        target = self.folder / "run.json"
        text = self.ok("run", "--json", target).stdout
        for word in ["rank", "kappa 1.93", "imbalance  2.32", "replicas", "peak rows",
                     "weights copied into slots", "compute time of each rank", "bitwise",
                     "checks hold"]:
            self.assertIn(word, text)
        self.assertRegex(text, r"outputs against the reference: fixed 0\.\d+, replicated 0\.\d+, "
                               r"accepted 0\.03\n")
        run = json.loads(target.read_text())
        self.assertEqual(run["schema"], "megaflux.run/1")
        self.assertTrue(run["all_hold"])
        self.assertEqual(run["failed_checks"], [])
        self.assertEqual(run["bitwise"], {"y": True, "dx": True})
        self.assertEqual(run["reference"], "whole")
        self.assertAlmostEqual(run["imbalance_before"], 2.32, delta=0.01)
        self.assertLess(run["imbalance_after"], 1.05)
        self.assertEqual((run["case"]["num_experts"], run["case"]["topk"]), (64, 6))
        self.assertEqual((run["case"]["hidden"], run["case"]["inter"]), (256, 192))


class RunJson(ProgramTest):
    def run_json(self, *options, status=0):
        return self.json("run", *SMALL, *options, status=status)

    def check(self, run, name):
        return next(c for c in run["checks"] if c["name"] == name)

    def test_has_the_keys_of_the_schema(self):
        run = self.run_json()
        for key in ["schema", "version", "case", "kappa", "imbalance_before", "imbalance_after",
                    "replicas", "instances", "rows_from_slots", "bytes_between_ranks",
                    "bytes_into_slots", "bytes_of_gradients", "gemm", "fixed", "replicated",
                    "devices", "notes", "reference", "checks", "all_hold", "failed_checks", "seconds"]:
            self.assertIn(key, run)
        for placement in ["fixed", "replicated"]:
            for key in ["plan_hash", "load_rows", "load_blocks", "imbalance", "replicas",
                        "peak_rows", "pool_rows", "rank_memory_bytes", "rank_memory_parts",
                        "forward", "backward", "errors"]:
                self.assertIn(key, run[placement])
            self.assertEqual(len(run[placement]["forward"]["compute_cpu_ms"]), 8)
            self.assertEqual(sum(run[placement]["rank_memory_parts"].values()),
                             run[placement]["rank_memory_bytes"])

    def test_rows_from_slots_are_those_of_the_replicas(self):
        run = self.run_json()
        expected = [0] * 8
        for instance in run["instances"]:
            if instance["slot"] >= 0:
                expected[instance["rank"]] += instance["rows"]
        self.assertGreater(sum(expected), 0)
        self.assertEqual(run["rows_from_slots"], expected)
        self.assertEqual(sum(run["fixed"]["load_rows"]), 512 * 6)

    def test_bytes_are_those_that_the_plan_implies(self):
        run = self.run_json("--forward-only")
        into_slots = run["replicated"]["forward"]["bytes"]["weights"]["in"]
        copies = [0] * 8
        for instance in run["instances"]:
            copies[instance["rank"]] += instance["slot"] >= 0
        self.assertEqual(into_slots, [n * EXPERT_BYTES for n in copies])
        dispatch = run["replicated"]["forward"]["bytes"]["dispatch"]["in"]
        self.assertEqual(sum(dispatch), run["replicated"]["remote_rows"] * 64 * 2)
        self.assertEqual(run["bytes_into_slots"], sum(into_slots))
        self.assertEqual(sum(run["fixed"]["forward"]["bytes"]["weights"]["in"]), 0)

    def test_bf16_errs_and_fp32_errs_less(self):
        bf16 = self.run_json()
        fp32 = self.run_json("--dtype", "fp32")
        self.assertGreater(self.check(bf16, "bf16-rounding")["value"], 0)
        for output in ["y", "dx", "dp", "dw"]:
            self.assertGreater(bf16["replicated"]["errors"][output], 1e-4)
            self.assertLess(fp32["replicated"]["errors"][output], 1e-4)

    def test_forward_only_leaves_the_backward_out(self):
        run = self.run_json("--forward-only")
        self.assertIsNone(run["replicated"]["backward"])
        self.assertEqual(list(run["replicated"]["errors"]), ["y"])
        self.assertTrue(self.run_json("--backward")["replicated"]["backward"])

    def test_recomputed_z_gives_the_same_verdict(self):
        run = self.run_json("--z", "recompute")
        self.assertTrue(run["all_hold"])
        self.assertEqual(run["replicated"]["errors"], self.run_json()["replicated"]["errors"])

    def test_small_capacity_needs_more_rounds(self):
        whole = self.run_json("--forward-only")
        ring = self.run_json("--forward-only", "--capacity", 512)
        self.assertEqual(ring["replicated"]["pool_rows"], 512)
        self.assertGreater(max(ring["replicated"]["forward"]["rounds"]),
                           max(whole["replicated"]["forward"]["rounds"]))
        self.assertEqual(ring["replicated"]["errors"], whole["replicated"]["errors"])

    def test_planners_and_objectives(self):
        for options in [["--planner", "paper"], ["--planner", "quota"], ["--planner", "fixed"],
                        ["--objective", "backward"], ["--objective", "cost"]]:
            self.assertTrue(self.run_json(*options)["all_hold"], options)

    def test_other_numbers_of_ranks_and_slots(self):
        run = self.run_json("--ranks", 3, "--slots", 1)
        self.assertEqual((len(run["rows_from_slots"]), run["all_hold"]), (3, True))
        self.assertTrue(self.run_json("--ranks", 1, "--slots", 0)["all_hold"])

    def test_owners(self):
        owners = self.write("owners.txt", ",".join(str(e % 8) for e in range(64)))
        run = self.run_json("--owners", owners)
        self.assertTrue(run["all_hold"])
        self.assertNotEqual(run["imbalance_before"], self.run_json()["imbalance_before"])

    def test_route_families(self):
        for family, imbalance in [("balanced", 1.0), ("hot-1.5", 1.5), ("one-hot", 8.0)]:
            run = self.json("run", "--route", family, "--experts", 32, "--topk", 4, "--tokens",
                            512, "--hidden", 32, "--inter", 32, "--block-rows", 16)
            self.assertAlmostEqual(run["imbalance_before"], imbalance, delta=0.03, msg=family)
            self.assertTrue(run["all_hold"], family)

    def test_recorded_route_family(self):
        run = self.json("run", "--route", "real-extreme", "--experts", 64, "--topk", 8, "--tokens",
                        512, "--hidden", 32, "--inter", 32, "--block-rows", 16)
        self.assertTrue(run["all_hold"])
        self.assertGreater(run["imbalance_before"], 1.3)

    def test_plan_from_outside(self):
        plan = self.folder / "step.mfpl"
        options = ["--tokens", 0, "--hidden", 16, "--inter", 16]
        made = self.json("plan", DATA_DIR / "esft_law.npz", "--layer", 18, "--planner", "paper",
                         "--plan-out", plan)
        run = self.json("run", *options, "--plan", plan)
        self.assertEqual(run["case"]["planner"], "outside")
        self.assertEqual(run["instances"], made["instances"])
        self.assertEqual(run["replicated"]["plan_hash"], made["hash"])

    def test_plan_of_another_step_is_refused(self):
        plan = self.folder / "step.mfpl"
        self.json("plan", self.loads(",".join(["100"] * 64)), "--plan-out", plan)
        self.rejected("run", *SMALL, "--plan", plan, words=["--plan", "step.mfpl", "expert"])

    def test_large_layers_are_sampled(self):
        run = self.json("run", "--tokens", 1536, "--hidden", 512, "--inter", 704)
        self.assertEqual(run["reference"], "sampled")
        # One pass each: nothing was repeated, so nothing is said about it.
        self.assertNotIn("replicated-repeatable", [check["name"] for check in run["checks"]])
        self.assertTrue(run["all_hold"])

    def test_orphans_fail_with_one(self):
        run = self.run_json("--inactive", 3, status=1)
        self.assertIn("fixed-finished", run["failed_checks"])
        self.assertIn("no legal plan", self.check(run, "fixed-finished")["detail"])

    def test_seed_changes_the_data_and_not_the_plan(self):
        one, two = self.run_json(), self.run_json("--seed", 2)
        self.assertEqual(one["replicated"]["plan_hash"], two["replicated"]["plan_hash"])
        self.assertNotEqual(one["replicated"]["errors"], two["replicated"]["errors"])


class Memory(ProgramTest):
    def refused(self, *options, words):
        target = self.folder / "run.json"
        line = self.rejected("run", *options, "--json", target,
                             words=["--backend cpu: not run: memory; needs ", " available", *words])
        self.assertFalse(target.exists())
        return line

    def test_what_does_not_fit_is_refused_before_it_is_drawn(self):
        self.refused("--hidden", 65536, "--inter", 65536, words=["(weights 1.65 TB, packed weights"])
        self.refused("--route", "balanced", "--tokens", 1 << 20, "--experts", 8, "--topk", 8, "--hidden", 65536,
                     "--inter", 16, words=["row pools 2.20 TB", "results 1.65 TB"])

    def test_the_need_is_what_a_run_takes_at_least(self):
        options = ["--route", "zipf-k3", "--tokens", 16000, "--experts", 16, "--topk", 2, "--hidden", 512, "--inter", 64]
        little = self.write("meminfo", "MemAvailable: 10000 kB\n")
        script = 'mount --bind "$0" /proc/meminfo || exit 77; exec "$@"'
        told = subprocess.run(["unshare", "-rm", "sh", "-c", script, str(little), PROGRAM, "run", *map(str, options)],
                              capture_output=True, text=True)
        if "not run: memory" not in told.stderr:
            self.skipTest("needs a name space in which /proc/meminfo can be replaced")
        needed = float(re.search(r"needs ([0-9.]+) MB", told.stderr).group(1)) * 1e6
        run = subprocess.Popen([PROGRAM, "run", *map(str, options)], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(run.returncode, 0)
        taken = usage.ru_maxrss * 1024
        self.assertLess(needed, taken)
        self.assertGreater(needed, 0.8 * taken)

    def test_memory_that_runs_out_all_the_same(self):
        limit = 300 << 20
        self.rejected("run", "--hidden", 1024, "--inter", 1024, words=["out of memory"],
                      prepare=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))


class Backend(ProgramTest):
    def test_ranks_as_threads_are_the_default(self):
        run = self.json("run", *SMALL, "--backend", "cpu", "--forward-only")
        self.assertEqual((run["case"]["backend"], run["devices"], run["notes"]), ("cpu", None, []))

    def test_a_build_without_cuda_says_so(self):
        self.rejected("run", "--backend", "cuda", words=["--backend cuda", "MEGAFLUX_CUDA=ON"])

    def test_the_backward_on_gpus_comes_later(self):
        for option, value in (("--passes", "both"), ("--z", "recompute")):
            self.rejected("run", *SMALL, "--backend", "cuda", option, value, words=[f"{option}: {value}", "backward", "--backend cuda"])

    def test_devices_are_for_gpus(self):
        self.rejected("run", *SMALL, "--devices", 1, words=["--devices", "1", "--backend cuda"])
        self.rejected("run", "--backend", "cuda", "--ranks", 2, "--devices", 4,
                      words=["--devices", "4", "--ranks 2"])
        self.rejected("run", "--backend", "cuda", "--ranks", 128, words=["--devices: 1", "--ranks 128", "66"])
        self.rejected("run", "--backend", "tpu", words=["--backend", "tpu", "cpu|cuda"])

    def test_what_gpus_do_not_do_is_refused_by_name(self):
        for options in [["--backward"], ["--z", "saved"], ["--inject", "skip-replica-gradient"]]:
            self.rejected("run", "--backend", "cuda", *options,
                          words=[*options, "--backend cuda"])
