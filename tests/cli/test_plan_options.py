"""Every option of `megaflux plan` changes the plan in the way it promises."""

import json
import subprocess

from program import PROGRAM, ProgramTest, call, environment

# Two domains of four ranks; domain 0 has nearly all rows. Two experts a rank.
LOPSIDED = "800,640,400,320,240,160,80,40,20,10,20,10,20,10,20,10"
BASE = ["--ranks", 8, "--slots", 2, "--block-rows", 16]
SHAPE = ["--hidden", 2048, "--inter", 1408]


class PlanOptions(ProgramTest):
    def plan(self, *options, loads=LOPSIDED, base=BASE):
        return self.json("plan", self.loads(loads), *base, *options)

    def replicas(self, plan):
        return [i for i in plan["instances"] if i["slot"] >= 0]

    def test_ranks_and_slots_shape_the_plan(self):
        plan = self.plan(base=["--ranks", 4, "--slots", 3, "--block-rows", 16])
        self.assertEqual((plan["num_ranks"], plan["replica_slots"]), (4, 3))
        self.assertEqual(len(plan["load_blocks"]), 4)
        self.assertLess(max(r["slot"] for r in self.replicas(plan)), 3)

    def test_no_slots_mean_no_replicas(self):
        self.assertEqual(self.plan("--slots", 0, base=["--block-rows", 16])["replicas"], 0)

    def test_block_rows_is_the_unit(self):
        fine = self.plan(base=["--ranks", 8, "--block-rows", 16])
        coarse = self.plan(base=["--ranks", 8, "--block-rows", 64])
        self.assertEqual((fine["block_rows"], coarse["block_rows"]), (16, 64))
        self.assertGreater(sum(fine["load_blocks"]), sum(coarse["load_blocks"]))

    def test_planners(self):
        plans = {name: self.plan("--planner", name)
                 for name in ["megaflux", "paper", "quota", "fixed"]}
        for name, plan in plans.items():
            self.assertEqual(plan["planner"], name)
        self.assertEqual(plans["fixed"]["replicas"], 0)
        self.assertEqual(plans["quota"]["block_rows"], 1)
        self.assertGreaterEqual(plans["fixed"]["max"], plans["paper"]["max"])
        self.assertGreaterEqual(plans["paper"]["max"], plans["megaflux"]["max"])

    def test_rivals_plan_in_rows_and_say_what_they_need(self):
        fixed = self.plan("--planner", "fixed")
        for name in ["ultraep", "eplb", "lplb", "llep", "echo", "moonep", "broadcast"]:
            with self.subTest(planner=name):
                plan = self.plan("--planner", name)
                self.assertEqual((plan["planner"], plan["block_rows"]), (name, 1))
                self.assertEqual(plan["replica_slots"], max(2, plan["slots_needed"]))
                self.assertEqual(sum(plan["load_rows"]), sum(fixed["load_rows"]))
                if name not in ("eplb", "lplb"):
                    self.assertEqual(plan["moved_owners"], 0)
                    self.assertEqual(plan["owner_of"], fixed["owner_of"])

    def test_planners_in_rows_predict_in_blocks(self):
        # Equal placement and planning time: rows are rounded to blocks a rank, not an expert.
        blocks = self.plan("--planner", "paper", *SHAPE)["gate"]["predicted_fixed_us"]
        rows = self.plan("--planner", "quota", *SHAPE)["gate"]["predicted_fixed_us"]
        self.assertGreater(rows, 0.95 * blocks)
        self.assertLessEqual(rows, blocks)

    def test_backward_objective_weighs_replicas(self):
        light = self.plan("--objective", "backward", "--lambda", 0)
        heavy = self.plan("--objective", "backward", "--lambda", 1000)
        self.assertGreater(light["replicas"], heavy["replicas"])
        self.assertEqual(heavy["replicas"], 0)

    def test_cost_objective_never_predicts_more_than_fixed(self):
        plan = self.plan("--objective", "cost", *SHAPE)
        self.assertLessEqual(plan["gate"]["predicted_us"], plan["gate"]["predicted_fixed_us"])
        self.assertNotEqual(plan["gate"]["decision"], "not asked")

    def test_machine_file_moves_the_gate(self):
        slow_link = self.write("machine.json", json.dumps({"name": "slow", "link_mb_per_s": 1}))
        with_h200 = self.plan("--objective", "cost", *SHAPE, loads="60000" + ",8" * 15)
        with_file = self.plan("--objective", "cost", *SHAPE, "--machine", slow_link,
                              loads="60000" + ",8" * 15)
        self.assertGreater(with_h200["replicas"], 0)
        self.assertEqual(with_file["replicas"], 0)

    def test_owners_may_send_at_a_rate_of_their_own(self):
        hot_owner = "9000" + ",3000" * 4 + ",100" * 11
        slow = self.write("machine.json", json.dumps({"link_mb_per_s": 335000, "send_mb_per_s": 2000}))
        plans = [self.plan("--objective", "cost", *SHAPE, *machine, loads=hot_owner) for machine in ((), ("--machine", slow))]
        self.assertGreater(plans[0]["replicas"], plans[1]["replicas"])

    def test_a_machine_comes_through_a_pipe(self):
        """`run` asks for the machine twice."""
        run = ["run", "--route", "zipf-k3", "--experts", 8, "--topk", 2, "--ranks", 2, "--tokens", 64, "--hidden", 64, "--inter", 64,
               "--objective", "cost", "--json", "-", "--machine", "/dev/stdin"]
        done = subprocess.run([PROGRAM, *map(str, run)], input='{"name": "piped"}', capture_output=True, text=True,
                              env=environment(), timeout=300)
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_a_file_called_like_a_machine_is_not_that_machine(self):
        (self.folder / "h200").write_text("no machine")
        loads = self.write("loads.csv", "900,700,120,100")
        self.assertEqual(0, call("plan", loads, "--ranks", 2, cwd=self.folder).returncode)
        refused = call("plan", loads, "--ranks", 2, "--machine", "./h200", cwd=self.folder)
        self.assertEqual(2, refused.returncode)
        self.assertIn("--machine: ./h200 is no JSON", refused.stderr)

    def test_slack_saves_copies(self):
        exact, loose = self.plan(), self.plan("--slack", 0.5)
        self.assertLess(loose["replicas"], exact["replicas"])
        self.assertLessEqual(loose["max"], -(-exact["tau"] * 3 // 2))

    def test_min_copy_blocks(self):
        plan = self.plan("--min-copy-blocks", 8)
        self.assertTrue(self.replicas(plan))
        self.assertTrue(all(r["num_blocks"] >= 8 for r in self.replicas(plan)))
        self.assertNotEqual(plan["instances"], self.plan()["instances"])

    def test_min_rows_per_replica(self):
        plan = self.plan("--planner", "quota", "--min-rows-per-replica", 100)
        self.assertTrue(self.replicas(plan))
        self.assertTrue(all(r["rows"] >= 100 for r in self.replicas(plan)))

    def test_min_forward_rows(self):
        self.assertGreater(self.plan("--min-forward-rows", 2800)["replicas"], 0)
        small = self.plan("--min-forward-rows", 2801)
        self.assertEqual((small["replicas"], small["gate"]["decision"]), (0, "few rows"))

    def test_owners(self):
        owners = [e % 8 for e in range(16)]
        path = self.write("owners.txt", "# round robin\n" + "\n".join(map(str, owners)))
        self.assertEqual(self.plan("--owners", path)["owner_of"], owners)

    def test_IC_71_domains_keep_replicas_at_home(self):
        for replica in self.replicas(self.plan("--domains", "0-3,4-7")):
            self.assertLess(replica["rank"], 4)
        self.assertTrue(any(r["rank"] >= 4 for r in self.replicas(self.plan())))

    def test_inactive_ranks_host_nothing(self):
        loads = LOPSIDED.replace("20,10,20,10,20,10,20,10", "20,10,20,10,20,10,0,0")
        plan = self.plan("--inactive", "7", loads=loads)
        self.assertEqual(plan["load_blocks"][7], 0)
        self.assertTrue(all(r["rank"] != 7 for r in self.replicas(plan)))
        self.assertGreater(plan["tau"], self.plan(loads=loads)["tau"])

    def test_base_blocks_push_work_away(self):
        path = self.write("base.txt", "0,0,0,0,0,0,0,500")
        plan = self.plan("--base-blocks", path)
        self.assertLessEqual(plan["load_blocks"][7],
                             self.plan("--planner", "fixed")["load_blocks"][7])
        self.assertGreater(self.plan()["load_blocks"][7], plan["load_blocks"][7])
        self.assertEqual(plan["finish"][7], 500 + plan["load_blocks"][7])

    def test_speed_scales_the_share(self):
        path = self.write("speed.txt", "1024,1024,1024,1024,1024,1024,1024,256")
        plan = self.plan("--speed", path)
        self.assertLess(plan["load_blocks"][7], self.plan()["load_blocks"][7])
        self.assertEqual(plan["finish"][7], 4 * plan["load_blocks"][7])

    def test_resident_replicas_move_nothing(self):
        first = self.plan(*SHAPE)
        held = [-1] * 16
        for replica in self.replicas(first):
            held[replica["rank"] * 2 + replica["slot"]] = replica["expert"]
        path = self.write("resident.txt", ",".join(map(str, held)))
        again = self.plan(*SHAPE, "--resident", path)
        self.assertGreater(first["copies"], 0)
        self.assertLess(again["copies"], first["copies"])
        self.assertLess(sum(again["bytes_in"]), sum(first["bytes_in"]))

    def test_dtype_sets_the_bytes(self):
        bf16, fp32 = self.plan(*SHAPE), self.plan(*SHAPE, "--dtype", "fp32")
        self.assertEqual([2 * b for b in bf16["bytes_in"]], fp32["bytes_in"])

    def test_passes_set_the_prediction(self):
        forward, both = self.plan(*SHAPE), self.plan(*SHAPE, "--passes", "both")
        self.assertGreater(both["gate"]["predicted_us"], forward["gate"]["predicted_us"])
