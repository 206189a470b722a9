"""`megaflux plan`: the JSON contract, conservation, determinism, the report for people."""

import json
import struct

from program import DATA_DIR, ProgramTest, call

PLAN_KEYS = ["schema", "planner", "objective", "num_experts", "num_ranks", "block_rows",
             "replica_slots", "owner_of", "instances", "load_blocks", "load_rows", "finish", "tau",
             "max", "mean", "imbalance", "replicas", "moved_blocks", "remote_rows", "bytes_in",
             "bytes_out", "gate", "device"]
INSTANCE_KEYS = ["expert", "rank", "slot", "first_block", "num_blocks", "rows"]
GATE_KEYS = ["decision", "predicted_us", "predicted_fixed_us"]
SHAPE = ["--hidden", 256, "--inter", 192]
SMALL = ["--ranks", 4, "--slots", 1, "--block-rows", 16]


class PlanJson(ProgramTest):
    def test_has_the_keys_of_the_schema(self):
        plan = self.json("plan", self.loads(), *SMALL)
        self.assertEqual(plan["schema"], "megaflux.plan/1")
        for key in PLAN_KEYS:
            self.assertIn(key, plan)
        for instance in plan["instances"]:
            self.assertEqual(list(instance), INSTANCE_KEYS)
        self.assertEqual(list(plan["gate"]), GATE_KEYS)

    def test_instances_conserve_blocks_and_rows(self):
        totals = [900, 700, 120, 100, 90, 80, 60, 50]
        plan = self.json("plan", self.loads(), *SMALL)
        rows, blocks, next_block = [0] * 8, [0] * 4, [0] * 8
        for instance in plan["instances"]:
            expert = instance["expert"]
            self.assertEqual(instance["first_block"], next_block[expert])
            next_block[expert] += instance["num_blocks"]
            rows[expert] += instance["rows"]
            blocks[instance["rank"]] += instance["num_blocks"]
            owner = plan["owner_of"][expert]
            self.assertEqual(instance["slot"] == -1, instance["rank"] == owner)
        self.assertEqual(rows, totals)
        self.assertEqual(next_block, [-(-total // 16) for total in totals])
        self.assertEqual(blocks, plan["load_blocks"])
        self.assertEqual(sum(plan["load_rows"]), sum(totals))
        self.assertEqual(plan["max"], max(plan["finish"]))
        self.assertGreaterEqual(plan["max"], plan["tau"])
        self.assertEqual(plan["replicas"], len(plan["instances"]) - 8)

    def test_without_a_shape_bytes_and_predictions_are_null(self):
        plan = self.json("plan", self.loads(), *SMALL)
        self.assertIsNone(plan["bytes_in"])
        self.assertIsNone(plan["bytes_out"])
        self.assertIsNone(plan["gate"]["predicted_us"])
        self.assertIsNone(plan["gate"]["predicted_fixed_us"])

    def test_with_a_shape_they_are_numbers(self):
        plan = self.json("plan", self.loads(), *SMALL, *SHAPE)
        expert_bytes = 3 * 256 * 192 * 2
        copies_in = [0] * 4
        for instance in plan["instances"]:
            copies_in[instance["rank"]] += instance["slot"] >= 0
        self.assertEqual(plan["bytes_in"], [n * expert_bytes for n in copies_in])
        self.assertEqual(sum(plan["bytes_in"]), sum(plan["bytes_out"]))
        self.assertGreater(plan["gate"]["predicted_us"], 0)
        self.assertGreater(plan["gate"]["predicted_fixed_us"], 0)

    def test_remote_rows_are_null_without_sources(self):
        self.assertIsNone(self.json("plan", self.loads(), *SMALL)["remote_rows"])

    def test_remote_rows_count_rows_that_leave_their_source(self):
        # Rank 0 owns experts 0 and 1, rank 1 owns 2 and 3; no slots, so rows go to the owners.
        loads = self.loads("5,1,2,0\n7,0,3,4")
        plan = self.json("plan", loads, "--ranks", 2, "--slots", 0, "--block-rows", 4)
        self.assertEqual(plan["remote_rows"], 2 + 0 + 7 + 0)

    def test_IC_20_any_experts_on_any_ranks(self):
        for experts, ranks, owned in [(10, 4, [3, 3, 2, 2]), (7, 8, [1] * 7 + [0])]:
            plan = self.json("plan", self.loads(",".join(["30"] * experts)), "--ranks", ranks)
            self.assertEqual([plan["owner_of"].count(r) for r in range(ranks)], owned)

    def test_IC_44_all_zero_loads_give_an_empty_plan(self):
        plan = self.json("plan", self.loads("0,0,0,0"), "--ranks", 2)
        self.assertEqual((plan["replicas"], plan["max"], plan["imbalance"]), (0, 0, 1.0))

    def test_IC_31_equal_calls_give_equal_bytes(self):
        loads = self.loads()
        calls = [call("plan", loads, *SMALL, *SHAPE, "--json", "-").stdout for _ in range(3)]
        self.assertEqual(calls[0], calls[1])
        self.assertEqual(calls[0], calls[2])

    def test_file_and_standard_output_agree(self):
        loads = self.loads()
        target = self.folder / "plan.json"
        report = self.ok("plan", loads, *SMALL, "--json", target)
        self.assertIn("imbalance", report.stdout)
        self.assertEqual(json.loads(target.read_text()), self.json("plan", loads, *SMALL))

    def test_plan_out_holds_the_plan_bytes(self):
        target = self.folder / "step.mfpl"
        plan = self.json("plan", self.loads(), *SMALL, "--plan-out", target)
        data = target.read_bytes()
        magic, version, _, experts, ranks, slots, block_rows = struct.unpack_from("<4sHHiiii", data)
        self.assertEqual((magic, version), (b"MFPL", 1))
        self.assertEqual((experts, ranks, slots, block_rows), (8, 4, 1, 16))
        self.assertEqual(len(data), 64 + 4 * 8 + 4 * 9 + 16 * (8 + 4) + 4 * 4 + 4)
        self.assertEqual(f"{struct.unpack_from('<Q', data, 48)[0]:016x}", plan["hash"])


class PlanOrphans(ProgramTest):
    def test_IC_36_are_listed_and_exit_with_one(self):
        loads = self.loads("9,9,0,9,9,9,9,9")
        arguments = ["plan", loads, "--ranks", 4, "--inactive", 1]
        result = call(*arguments)
        self.assertEqual(result.returncode, 1)
        self.assertIn("3", result.stderr + result.stdout)
        plan = self.json(*arguments, status=1)
        self.assertEqual(plan["orphans"], [3])  # expert 2 has no rows
        self.assertEqual(plan["instances"], [])

    def test_write_no_plan_file(self):
        target = self.folder / "step.mfpl"
        result = call("plan", self.loads(), "--ranks", 4, "--inactive", 1, "--plan-out", target)
        self.assertEqual(result.returncode, 1)
        self.assertFalse(target.exists())


class PlanOfTrace(ProgramTest):
    def test_default_trace_has_the_documented_imbalance(self):
        plan = self.json("plan", DATA_DIR / "esft_law.npz", "--layer", 18, "--step", 0,
                         "--planner", "fixed", "--block-rows", 1)
        self.assertEqual((plan["num_experts"], plan["num_ranks"]), (64, 8))
        self.assertAlmostEqual(plan["imbalance"], 2.32, delta=0.01)
        self.assertIsNotNone(plan["remote_rows"])

    def test_planning_evens_it_out(self):
        plan = self.json("plan", DATA_DIR / "esft_law.npz", "--layer", 18)
        self.assertLess(plan["imbalance"], 1.05)
        self.assertGreater(plan["replicas"], 0)


class PlanReport(ProgramTest):
    def test_names_replicas_bars_and_gate(self):
        text = self.ok("plan", self.loads(), *SMALL, *SHAPE).stdout
        for word in ["rank", "imbalance", "replicas", "gate", "tau"]:
            self.assertIn(word, text)
        self.assertIn("█", text)

    def test_planners_in_rows_count_rows(self):
        text = self.ok("plan", self.loads(), *SMALL, "--planner", "moonep").stdout
        for words in ["fixed placement, rows", "rows (tau)", "rows moved"]:
            self.assertIn(words, text)
        self.assertNotIn("blocks (tau)", text)
