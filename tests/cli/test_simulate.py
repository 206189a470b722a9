"""megaflux simulate: the table, the JSON, suggested owners, and what it rejects."""

import json

from program import DATA_DIR, ProgramTest, call, call_on_terminal, environment

TRACE = DATA_DIR / "esft_law.npz"  # 64 experts, 26 layers, 1 step, token ids
STEPS = DATA_DIR / "gptoss20b_decode_topk.npz"  # 32 experts, 24 layers, 96 steps in time order, token ids
SPREAD = {"median", "p90", "p99", "max", "mean"}


class Simulate(ProgramTest):
    def rows(self, *options, trace=TRACE):
        result = self.json("simulate", trace, *options)
        self.assertEqual(result["schema"], "megaflux.simulate/1")
        return result["traces"][0]["rows"]

    def test_schema(self):
        result = self.json("simulate", TRACE, "--model", "qwen3-30b", "--layers", "0-3")
        self.assertLessEqual({"schema", "version", "objective", "block_rows", "slack", "passes", "model",
                              "machine", "threads", "traces"}, set(result))
        self.assertEqual(result["model"]["hidden"], 2048)
        trace = result["traces"][0]
        self.assertLessEqual({"name", "model", "num_experts", "topk", "steps", "layers", "time_ordered",
                              "has_sources", "cells", "history_interval", "notes", "rows", "owners"},
                             set(trace))
        self.assertEqual(trace["cells"], 4)
        self.assertIsNone(trace["owners"])
        self.assertEqual([row["planner"] for row in trace["rows"]],
                         ["megaflux", "paper", "quota", "fixed", "ultraep", "eplb", "eplb-exact", "lplb",
                          "lplb-exact", "llep", "echo", "moonep", "broadcast"])
        for row in trace["rows"]:
            for key in ("imbalance", "copies", "replicas", "moved_bytes", "moved_rows", "remote_rows",
                        "pair_rows", "pair_bytes", "peak_rows", "plan_us", "layer_us", "ideal_us",
                        "second_ideal_us", "kappa", "maxvio", "total_rows"):
                self.assertEqual(set(row[key]), SPREAD, key)
            self.assertEqual(len(row["layers"]), 4)
            self.assertGreaterEqual(row["imbalance"]["median"], 1)
            self.assertLessEqual(row["share_of_ideal"], row["share_of_second_ideal"])
            self.assertLessEqual(row["share_of_second_ideal"], 1)
            self.assertAlmostEqual(row["balancedness"]["worst"], 1 / row["imbalance"]["max"], places=4)
            self.assertEqual(row["over_budget"], row["slots_needed"] > 2)
        self.assertEqual(sum(row["best"] for row in trace["rows"]), 1)

    def test_agrees_with_plan(self):
        row = self.rows("--planners", "megaflux", "--layers", 18, "--model", "2048,1408,6")[0]
        plan = self.json("plan", TRACE, "--layer", 18, "--hidden", 2048, "--inter", 1408)
        self.assertEqual(row["copies"]["max"], plan["copies"])
        self.assertEqual(row["replicas"]["max"], plan["replicas"])
        self.assertEqual(row["remote_rows"]["max"], plan["remote_rows"])
        self.assertEqual(row["peak_rows"]["max"], plan["peak_padded_rows"])
        self.assertEqual(row["moved_bytes"]["max"], sum(plan["bytes_in"]))
        self.assertAlmostEqual(row["layer_us"]["max"], plan["gate"]["predicted_us"], delta=0.01)
        mean = sum(plan["load_rows"]) / 8
        self.assertAlmostEqual(row["imbalance"]["max"], max(plan["load_rows"]) / mean, places=4)
        self.assertAlmostEqual(row["fixed"]["imbalance"]["max"],
                               max(plan["fixed"]["load_rows"]) / mean, places=4)

    def test_without_a_model_nothing_is_predicted(self):
        for row in self.rows("--planners", "megaflux,eplb", "--layers", 0):
            for key in ("moved_bytes", "pair_bytes", "layer_us", "ideal_us", "speedup", "memory",
                        "share_of_ideal", "break_even_rows"):
                self.assertIsNone(row[key], key)
        self.assertIn("--model", call("simulate", TRACE, "--planners", "fixed").stdout)

    def test_axes(self):
        rows = self.rows("--planners", "fixed,megaflux", "--ranks", "4,8", "--slots", "1,2",
                         "--rows-per-rank", "64,4096", "--layers", "0-1", "--model", "qwen3-30b")
        self.assertEqual(len(rows), 2 * 2 * 2 * 2)
        self.assertEqual({(r["ranks"], r["slots"], r["rows_per_rank"]) for r in rows},
                         {(p, s, n) for p in (4, 8) for s in (1, 2) for n in (64, 4096)})
        for row in rows:
            self.assertAlmostEqual(row["total_rows"]["mean"], row["ranks"] * row["rows_per_rank"])

    def test_IC_38_break_even(self):
        options = ("--planners", "megaflux", "--model", "qwen3-30b", "--layers", 18,
                   "--rows-per-rank", "1,8,64,512,4096,32768")
        rows = self.rows(*options)
        break_even = rows[0]["break_even_rows"]
        self.assertIn(break_even, (64, 512, 4096, 32768))
        for row in rows:
            self.assertEqual(row["speedup"] > 1, row["rows_per_rank"] >= break_even)
        self.assertRegex(call("simulate", TRACE, *options).stdout, r"break-even: .*\n.*megaflux.* rows\n")

    def test_slot_memory(self):
        rows = self.rows("--planners", "megaflux,eplb", "--model", "qwen3-30b", "--layers", 0)
        expert = 3 * 2048 * 768 * 2
        self.assertEqual(rows[0]["memory"], {"slot_bytes": expert, "rank_bytes": 2 * expert,
                                             "rank_bytes_without_sharing": 26 * 2 * expert,
                                             "saved_bytes": 25 * 2 * expert})
        self.assertEqual(rows[1]["memory"]["saved_bytes"], 0)

    def test_history(self):
        result = self.json("simulate", STEPS, "--planners", "eplb,eplb-exact", "--layers", 0,
                           "--history-interval", 5)
        trace = result["traces"][0]
        history, exact = trace["rows"]
        self.assertEqual(trace["history_interval"], 5)
        self.assertEqual(history["history"]["cells_before_first"], 5)
        self.assertEqual(history["history"]["placements"], (trace["steps"] - 1) // 5)
        self.assertIsNone(exact["history"])
        self.assertTrue(exact["moves_owners"])
        self.assertTrue(any("every 5 steps" in note for note in trace["notes"]))
        one = self.json("simulate", TRACE, "--planners", "eplb", "--layers", 0)["traces"][0]
        self.assertTrue(any("one step" in note for note in one["notes"]))
        self.assertEqual(one["rows"][0]["copies"]["max"], 0)

    def test_threads_change_nothing_but_times(self):
        def without_times(rows):
            return [{k: v for k, v in row.items() if k != "plan_us"} for row in rows]

        options = ("--planners", "megaflux,eplb,echo", "--model", "olmoe", "--cases", 40)
        self.assertEqual(without_times(self.rows(*options, "--threads", 1, trace=STEPS)),
                         without_times(self.rows(*options, "--threads", 4, trace=STEPS)))

    def test_a_model_of_other_sizes_is_said_to_be_one(self):
        notes = self.json("simulate", TRACE, "--planners", "fixed", "--model", "dsv3",
                          "--layers", 0)["traces"][0]["notes"]
        self.assertTrue(any("only H and I" in note for note in notes), notes)

    def test_a_folder_and_several_traces(self):
        result = self.json("simulate", TRACE, STEPS, "--planners", "fixed", "--cases", 3)
        self.assertEqual([t["name"] for t in result["traces"]], [TRACE.name, STEPS.name])

    def test_colour_on_a_terminal_only(self):
        options = ("simulate", TRACE, "--planners", "fixed,megaflux", "--layers", 0, "--model", "olmoe")
        status, shown = call_on_terminal(*options)
        self.assertEqual(status, 0)
        self.assertIn("\x1b[", shown)
        _, shown = call_on_terminal(*options, env=environment(NO_COLOR="1"))
        self.assertNotIn("\x1b[", shown)
        piped = self.ok(*options)
        self.assertNotIn("\x1b[", piped.stdout)
        self.assertRegex(piped.stdout, r"\* megaflux")
        self.assertEqual(piped.stderr, "")

    def test_help_has_an_example(self):
        self.assertIn("Example: megaflux simulate", self.ok("simulate", "--help").stdout)


class SuggestOwners(ProgramTest):
    def suggest(self, trace, *options):
        path = self.folder / "owners.json"
        result = self.json("simulate", trace, "--suggest-owners", path, "--planners", "fixed,megaflux",
                           *options)
        return path, json.loads(path.read_text()), result["traces"][0]["owners"]

    def test_in_sample_it_is_never_worse(self):
        _, owners, comparison = self.suggest(TRACE, "--ranks", 4)
        self.assertEqual(owners["schema"], "megaflux.owners/1")
        self.assertEqual((owners["num_experts"], owners["num_ranks"]), (64, 4))
        self.assertEqual(len(owners["layers"]), 26)
        for layer in owners["layers"]:
            self.assertLessEqual(layer["imbalance_suggested"], layer["imbalance_default"])
            for rank in range(4):
                self.assertEqual(layer["owner_of"].count(rank), 16)
        self.assertFalse(comparison["held_out"])
        fixed = comparison["rows"][0]
        self.assertEqual(fixed["planner"], "fixed")
        self.assertLess(fixed["suggested"]["imbalance"]["mean"], fixed["default"]["imbalance"]["mean"])

    def test_later_steps_judge(self):
        path, _, comparison = self.suggest(STEPS)
        time_ordered = self.json("simulate", STEPS, "--planners", "fixed")["traces"][0]["time_ordered"]
        self.assertEqual(comparison["held_out"], time_ordered)
        self.assertGreater(comparison["cells_judging"], 0)
        self.assertIn("suggested owners",
                      self.ok("simulate", STEPS, "--suggest-owners", path, "--planners", "fixed").stdout)

    def test_plan_and_run_read_the_table_of_their_layer(self):
        path, owners, _ = self.suggest(TRACE)
        for layer in (0, 18):
            plan = self.json("plan", TRACE, "--layer", layer, "--planner", "fixed", "--owners", path)
            self.assertEqual(plan["owner_of"], owners["layers"][layer]["owner_of"])
        rows = self.json("simulate", TRACE, "--planners", "fixed", "--layers", 18,
                         "--owners", path)["traces"][0]["rows"]
        plan_mean = sum(plan["load_rows"]) / 8
        self.assertAlmostEqual(rows[0]["imbalance"]["max"], max(plan["load_rows"]) / plan_mean, places=4)

    def test_plain_owners_serve_every_layer(self):
        table = self.write("owners.csv", ",".join(str(e % 8) for e in range(64)))
        plan = self.json("plan", TRACE, "--layer", 3, "--planner", "fixed", "--owners", table)
        rows = self.json("simulate", TRACE, "--planners", "fixed", "--layers", 3,
                         "--owners", table)["traces"][0]["rows"]
        self.assertAlmostEqual(rows[0]["imbalance"]["max"], max(plan["load_rows"]) * 8 / plan["total_rows"],
                               places=4)

    def test_bad_owner_files(self):
        good = {"schema": "megaflux.owners/1", "num_experts": 64, "num_ranks": 8,
                "layers": [{"layer_index": 0, "owner_of": [e % 8 for e in range(64)]}]}

        def reject(words, **changes):
            text = json.dumps({k: v for k, v in {**good, **changes}.items() if v is not None})
            path = self.write("bad.json", text)
            self.rejected("plan", TRACE, "--owners", path, words=["--owners", "bad.json", *words])

        self.ok("plan", TRACE, "--owners", self.write("good.json", json.dumps(good)))
        reject(["schema"], schema="megaflux.owners/9")
        reject(["schema"], schema=None)
        reject(["num_experts", "32", "64"], num_experts=32)
        reject(["num_ranks", "missing"], num_ranks=None)
        reject(["layers", "no array"], layers={})
        reject(["no table for layer index 0"], layers=[])
        reject(["layer_index"], layers=[{"owner_of": []}])
        reject(["63 owners", "64"], layers=[{"layer_index": 0, "owner_of": [0] * 63}])
        reject(["expert 1", "8", "[0, 7]"], layers=[{"layer_index": 0, "owner_of": [0, 8] + [0] * 62}])
        reject(["expert 0", "\"a\""], layers=[{"layer_index": 0, "owner_of": ["a"] * 64}])
        reject(["twice"], layers=good["layers"] * 2)
        self.rejected("plan", TRACE, "--owners", self.write("bad.json", "{"),
                      words=["--owners", "no JSON object"])


class BadSimulateInput(ProgramTest):
    def simulate(self, *options, words, trace=TRACE):
        target = self.folder / "out.json"
        owners = self.folder / "owners.json"
        self.rejected("simulate", trace, "--json", target, *options, words=words)
        self.assertFalse(target.exists())
        self.assertFalse(owners.exists())

    def test_no_trace(self):
        self.rejected("simulate", words=["TRACE"])

    def test_trace_that_is_not_there(self):
        self.simulate(trace=self.folder / "none.npz", words=["TRACE", "none.npz"])

    def test_trace_that_is_none(self):
        self.simulate(trace=self.loads(), words=["TRACE", "loads.csv", ".npz"])
        self.simulate(trace=self.write("bad.npz", "PK no zip"), words=["TRACE", "bad.npz"])

    def test_empty_folder(self):
        self.simulate(trace=self.folder, words=["TRACE", "0 traces"])

    def test_lists(self):
        self.simulate("--ranks", "8,0", words=["--ranks", "0", "[1, 1024]"])
        self.simulate("--ranks", "8,,16", words=["--ranks", "''"])
        self.simulate("--ranks", "8,8", words=["--ranks", "8", "twice"])
        self.simulate("--slots", "-1", words=["--slots", "-1", "[0, 1024]"])
        self.simulate("--rows-per-rank", "many", words=["--rows-per-rank", "'many'"])

    def test_too_many_rows(self):
        self.simulate("--rows-per-rank", 1 << 24, "--ranks", 1024,
                      words=["--rows-per-rank", "16777216", "1024", "2147483647"])

    def test_planners(self):
        self.simulate("--planners", "magic", words=["--planners", "'magic'", "all|megaflux"])
        self.simulate("--planners", "eplb,eplb", words=["--planners", "eplb", "twice"])
        self.simulate("--planners", "", words=["--planners"])

    def test_model(self):
        self.simulate("--model", "gpt-9", words=["--model", "'gpt-9'", "qwen3-30b"])
        self.simulate("--model", "1,2", words=["--model", "'1,2'"])
        self.simulate("--model", "0,2,3", words=["--model", "H", "0", "[1, 65536]"])

    def test_cost_without_a_model(self):
        self.simulate("--objective", "cost", words=["--objective", "cost", "--model"])

    def test_machine(self):
        self.simulate("--machine", "abacus", words=["--machine", "'abacus'", "h200"])

    def test_layers_and_steps(self):
        self.simulate("--layers", "26", words=["--layers", "26", "[0, 25]"])
        self.simulate("--layers", "0-2,1", words=["--layers", "1", "twice"])
        self.simulate("--layers", "5-3", words=["--layers", "5-3", "backwards"])
        self.simulate("--steps", "1", words=["--steps", "1", "[0, 0]"])

    def test_owners(self):
        owners = self.folder / "owners.json"
        self.simulate("--suggest-owners", owners, "--ranks", "8,16",
                      words=["--suggest-owners", "8,16", "2"])
        self.simulate(STEPS, "--suggest-owners", owners, words=["--suggest-owners", "one trace", "2"])
        self.simulate("--suggest-owners", "-", words=["--suggest-owners", "-"])
        self.simulate("--suggest-owners", self.folder / "no" / "owners.json",
                      words=["--suggest-owners", "does not exist"])
        self.simulate("--owners", self.write("few.csv", "0,1"), words=["--owners", "2 values", "64"])

    def test_rival_that_does_not_plan(self):
        self.simulate("--planners", "megaflux", "--rival", "llep.alpha=1.1", words=["--rival", "llep.alpha"])

    def test_threads(self):
        self.simulate("--threads", 257, words=["--threads", "257", "[0, 256]"])

    def test_history_that_nobody_reads(self):
        self.simulate("--history-interval", 4, "--planners", "megaflux,eplb-exact",
                      words=["--history-interval", "4", "eplb"])

    def test_one_file_for_two_things(self):
        one = self.folder / "one.json"
        self.rejected("simulate", TRACE, "--json", one, "--suggest-owners", one,
                      words=["--suggest-owners", "one.json", "--json"])
        self.assertFalse(one.exists())

    def test_unwritable_json(self):
        self.rejected("simulate", TRACE, "--json", self.folder / "no" / "x.json",
                      words=["--json", "does not exist"])
