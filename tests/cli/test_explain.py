"""`megaflux explain`: the JSON contract, its agreement with `plan`, the text for people, bad input."""

import re

from program import DATA_DIR, ProgramTest, call, call_on_terminal

SMALL = ["--ranks", 4, "--slots", 1, "--block-rows", 16]
SHAPE = ["--hidden", 2048, "--inter", 1408]
TRACE = DATA_DIR / "esft_law.npz"
LAYER = ["--layer", 18, "--step", 0]
# One layer of the weights in EPLB's README.
README_WEIGHTS = "90,132,40,61,104,165,39,4,73,56,183,86"
PLANNERS = ["megaflux", "paper", "quota", "fixed", "ultraep", "eplb", "lplb", "llep", "echo",
            "moonep", "broadcast"]
KEYS = ["schema", "origin", "planner", "objective", "num_experts", "num_ranks", "replica_slots",
        "total_rows", "orphans", "block_rows", "slots_needed", "moved_owners", "kappa",
        "imbalance_fixed", "imbalance", "tau", "max", "lambda", "gate", "rule", "rule_text",
        "bound_text", "domains", "ranks", "walk", "experts", "what_if", "expert"]


class ExplainJson(ProgramTest):
    def explain(self, *options, **keywords):
        return self.json("explain", self.loads(), *SMALL, *options, **keywords)

    def test_has_the_keys_of_the_schema(self):
        result = self.explain()
        self.assertEqual(result["schema"], "megaflux.explain/1")
        self.assertEqual(list(result), KEYS)
        self.assertEqual(len(result["experts"]), 8)
        self.assertEqual(len(result["ranks"]), 4)
        self.assertIsNone(result["expert"])

    def test_agrees_with_plan(self):
        for planner in PLANNERS:
            with self.subTest(planner=planner):
                options = [TRACE, *LAYER, "--planner", planner]
                plan = self.json("plan", *options)
                result = self.json("explain", *options)
                self.assertEqual([r["load"] for r in result["ranks"]], plan["load_blocks"])
                self.assertEqual((result["tau"], result["max"]), (plan["tau"], plan["max"]))
                self.assertEqual(sum(e["replicas"] for e in result["experts"]), plan["replicas"])
                self.assertEqual([e["owner"] for e in result["experts"]], plan["owner_of"])
                self.assertAlmostEqual(result["kappa"], plan["kappa"])

    def test_walk_leads_from_fixed_placement_to_the_plan(self):
        for planner in PLANNERS:
            result = self.explain("--planner", planner)
            loads = [rank["load_fixed"] for rank in result["ranks"]]
            for move in result["walk"]:
                loads[move["from"]] -= move["blocks"]
                loads[move["to"]] += move["blocks"]
                self.assertEqual(loads[move["from"]], move["from_load"])
                self.assertEqual(loads[move["to"]], move["to_load"])
            self.assertEqual(loads, [rank["load"] for rank in result["ranks"]])

    def test_one_expert_in_detail(self):
        result = self.json("explain", TRACE, *LAYER, "--expert", 54)
        expert = result["expert"]
        self.assertEqual((expert["expert"], expert["reason"]), (54, "relieves_owner"))
        self.assertEqual(sum(i["rows"] for i in expert["instances"]), expert["rows"])
        self.assertEqual(sum(expert["rows_by_source"]), expert["rows"])
        changes = {what["change"]: what for what in result["what_if"]}
        self.assertGreater(changes["undone"]["max"], result["max"])
        self.assertIn("barred", changes)

    def test_slots_are_planned_again(self):
        result = self.explain()
        changes = {what["change"]: what for what in result["what_if"]}
        for slots, change in [(2, "one_slot_more"), (0, "one_slot_less")]:
            plan = self.json("plan", self.loads(), "--ranks", 4, "--block-rows", 16, "--slots", slots)
            self.assertEqual((changes[change]["max"], changes[change]["replicas"]),
                             (plan["max"], plan["replicas"]))

    def test_IC_69_readme_weights_of_eplb(self):
        loads = self.loads(README_WEIGHTS)
        for planner in ["eplb", "megaflux"]:
            result = self.json("explain", loads, "--ranks", 4, "--slots", 1, "--block-rows", 1,
                               "--planner", planner)
            for expert in result["experts"]:
                word = "replicated" if expert["replicas"] else "not replicated"
                self.assertTrue(expert["text"].startswith(word), expert["text"])
                self.assertRegex(expert["text"], r"because|by the rule of|although")
        result = self.json("explain", loads, "--ranks", 4, "--slots", 1, "--planner", "eplb",
                           "--expert", 8)
        self.assertEqual(result["expert"]["places"],
                         {"count": 1, "rows_each": 73.0, "least_rows_for_another": 104.0})

    def test_orphans(self):
        result = self.json("explain", self.loads("9,9,0,9,9,9,9,9"), *SMALL, "--inactive", 1,
                           status=1)
        self.assertEqual(result["orphans"], [3])
        self.assertNotIn("walk", result)

    def test_gates(self):
        self.assertEqual(self.explain("--min-forward-rows", 1 << 20)["rule"], "few_rows")
        self.assertEqual(self.explain("--objective", "cost", *SHAPE)["rule"], "pre_gate")
        self.assertEqual(self.explain("--planner", "fixed")["rule"], "fixed_planner")

    def test_equal_calls_give_equal_bytes(self):
        calls = [call("explain", TRACE, *LAYER, "--json", "-").stdout for _ in range(2)]
        self.assertEqual(calls[0], calls[1])


class ExplainText(ProgramTest):
    def test_tells_the_story_of_a_step(self):
        text = self.ok("explain", TRACE, *LAYER).stdout
        for words in ["imbalance 2.321", "No plan finishes before 53 (tau): 417 blocks over 8 active",
                      "Over the bound with fixed placement: 2 ranks", "What moves",
                      "Largest experts that are not replicated", "What if", "as planned"]:
            self.assertIn(words, text)

    def test_no_line_is_wider_than_a_page(self):
        for planner in PLANNERS:
            for extra in [[], ["--expert", 54]]:
                text = self.ok("explain", TRACE, *LAYER, "--planner", planner, *extra).stdout
                for line in text.splitlines():
                    self.assertLessEqual(len(line), 104, line)

    def test_every_planner_gives_an_answer_for_every_expert(self):
        for planner in PLANNERS:
            result = self.json("explain", self.loads(), *SMALL, "--planner", planner)
            for expert in result["experts"]:
                text = self.ok("explain", self.loads(), *SMALL, "--planner", planner, "--expert",
                               expert["expert"]).stdout
                words = expert["text"][0].upper() + expert["text"][1:]
                self.assertIn(words, re.sub(r"\s+", " ", text))

    def test_domains_and_inactive_ranks_are_named(self):
        text = self.ok("explain", self.loads(), *SMALL, "--domains", "0-1,2-3").stdout
        self.assertIn("Replicas stay in the NVLink domain of their owner", text)
        self.assertIn("Domain 1 finishes at", text)
        text = self.ok("explain", self.loads("900,700,120,100,90,80,0,0"), *SMALL,
                       "--inactive", 3).stdout
        self.assertIn("With all ranks active it would be", text)

    def test_colour_is_for_terminals(self):
        self.assertNotIn("\x1b", self.ok("explain", self.loads(), *SMALL).stdout)
        status, shown = call_on_terminal("explain", self.loads(), *SMALL)
        self.assertEqual(status, 0)
        self.assertIn("\x1b[", shown)


class BadExplainInput(ProgramTest):
    def test_expert_beyond_the_loads(self):
        self.rejected("explain", self.loads(), *SMALL, "--expert", 8,
                      words=["--expert", "8", "[0, 7]"])

    def test_no_loads(self):
        self.rejected("explain", words=["LOADS"])

    def test_layer_for_csv(self):
        self.rejected("explain", self.loads(), *SMALL, "--layer", 1, words=["--layer", "trace"])

    def test_nothing_is_written(self):
        target = self.folder / "out.json"
        self.rejected("explain", self.loads(), *SMALL, "--expert", 99, "--json", target,
                      words=["--expert"])
        self.assertFalse(target.exists())

    def test_IC_59_ignored_options(self):
        self.rejected("explain", self.loads(), *SMALL, "--lambda", 3, words=["--lambda", "backward"])
        self.rejected("explain", self.loads(), *SMALL, "--rival", "llep.alpha=2",
                      words=["--rival", "llep.alpha"])
