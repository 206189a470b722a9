"""Bad input: status 2, one line that names the argument, the value and the limit, and nothing written."""

from program import DATA_DIR, ProgramTest, call

TRACE = DATA_DIR / "esft_law.npz"


class BadPlanInput(ProgramTest):
    def plan(self, *options, words, loads=None):
        target = self.folder / "out.json"
        plan_bytes = self.folder / "out.mfpl"
        if loads is None:
            loads = self.loads()
        self.rejected("plan", loads, "--json", target, "--plan-out", plan_bytes, *options,
                      words=words)
        self.assertFalse(target.exists())
        self.assertFalse(plan_bytes.exists())

    def test_ranks_below_one(self):
        self.plan("--ranks", 0, words=["--ranks", "0", "[1, 1024]"])

    def test_ranks_above_the_limit(self):
        self.plan("--ranks", 1025, words=["--ranks", "1025", "[1, 1024]"])

    def test_ranks_no_number(self):
        self.plan("--ranks", "eight", words=["--ranks", "'eight'", "[1, 1024]"])

    def test_ranks_beyond_64_bits(self):
        self.plan("--ranks", "9" * 30, words=["--ranks", "9" * 30, "[1, 1024]"])

    def test_outputs_that_replace_something(self):
        loads = self.loads()
        before = loads.read_bytes()
        for command in ["plan", "explain"]:
            self.rejected(command, loads, "--json", loads,
                          words=["--json", "loads.csv", "LOADS", "overwritten"])
        one = self.folder / "one"
        self.rejected("plan", loads, "--json", one, "--plan-out", one, words=["--plan-out", "--json"])
        self.assertFalse(one.exists())
        link = self.folder / "link.csv"
        link.symlink_to(loads)
        self.rejected("plan", loads, "--plan-out", link, words=["--plan-out", "overwritten"])
        self.assertEqual(loads.read_bytes(), before)

    def test_traces_that_an_output_would_replace(self):
        trace = self.folder / "trace.npz"
        trace.write_bytes(TRACE.read_bytes())
        real = ("--route", "real-high", "--trace", trace)
        for *command, output in (("run", "--trace", trace, "--json"), ("run", "--plan", trace, "--json"),
                                 ("bench", "plan", trace, "--json"), ("bench", "head", *real, "--out"),
                                 ("bench", "forward", *real, "--json"), ("bench", "forward", *real, "--routes-out")):
            self.rejected(*command, output, trace, words=[output, "trace.npz", "overwritten"])
        self.rejected("bench", "forward", "--out", self.folder / "x", "--routes-out", self.folder / "x",
                      words=["--routes-out", "--out"])
        self.assertEqual(trace.read_bytes(), TRACE.read_bytes())

    def test_tables_that_an_output_would_replace(self):
        table = self.write("table.txt", "0 0 1 1")
        for command in (("plan", self.write("loads.csv", "1,2,3,4")), ("run",), ("bench", "head"), ("bench", "forward")):
            tables = () if command[0] == "bench" else ("--owners", "--base-blocks", "--speed")
            for option in ("--machine", *tables):
                with self.subTest(command=command, option=option):
                    self.rejected(*command, option, table, "--json", table, words=["--json", option, "overwritten"])
        self.rejected("plan", self.folder / "loads.csv", "--resident", table, "--plan-out", table,
                      words=["--plan-out", "--resident", "overwritten"])
        self.assertEqual(table.read_text(), "0 0 1 1")

    def test_negative_slots(self):
        self.plan("--slots", -1, words=["--slots", "-1", "[0, 1024]"])

    def test_block_rows(self):
        self.plan("--block-rows", 0, words=["--block-rows", "0", "[1, 1048576]"])

    def test_unknown_planner(self):
        self.plan("--planner", "oracle", words=["--planner", "'oracle'", "megaflux|paper|quota"])

    def test_unknown_objective(self):
        self.plan("--objective", "joy", words=["--objective", "'joy'", "forward|backward|cost"])

    def test_cost_without_a_shape(self):
        self.plan("--objective", "cost", words=["--objective", "cost", "--hidden"])

    def test_hidden_without_inter(self):
        self.plan("--hidden", 256, words=["--inter", "--hidden", "256"])

    def test_slack(self):
        self.plan("--slack", -0.5, words=["--slack", "-0.5", "[0,"])
        self.plan("--slack", "nan", words=["--slack", "nan", "[0,"])

    def test_min_copy_blocks(self):
        self.plan("--min-copy-blocks", 0, words=["--min-copy-blocks", "0", "[1,"])

    def test_unknown_option(self):
        line = self.rejected("plan", self.loads(), "--planer", "quota", words=["--planer"])
        self.assertNotIn("quota", line)

    def test_option_without_a_value(self):
        self.rejected("plan", self.loads(), "--ranks", words=["--ranks", "value is missing"])

    def test_option_given_twice(self):
        self.plan("--ranks", 2, "--ranks", 4, words=["--ranks", "more than once"])

    def test_file_without_a_name(self):
        for option in ["--json", "--plan-out", "--owners"]:
            self.rejected("plan", self.loads(), option, "", words=[option, "''"])

    def test_names_do_not_steer_the_terminal(self):
        line = self.rejected("plan", "no\x1b[31mwhere.csv", words=["no\\x1b[31mwhere.csv"])
        self.assertTrue(line.isprintable())

    def test_missing_loads(self):
        self.rejected("plan", words=["LOADS"])

    def test_loads_file_that_is_not_there(self):
        self.plan(words=["LOADS", "nowhere.csv", "cannot be read", "No such file"],
                  loads=self.folder / "nowhere.csv")

    def test_loads_folder(self):
        self.plan(words=["LOADS", "cannot be read", "directory"], loads=self.folder)

    def test_empty_loads(self):
        self.plan(words=["LOADS", "no numbers"], loads=self.loads(""))

    def test_negative_count(self):
        self.plan(words=["LOADS", "line 1", "column 2", "-7", "[0, 2147483647]"],
                  loads=self.loads("5,-7,3"))

    def test_count_that_is_no_number(self):
        self.plan(words=["LOADS", "line 1", "column 3", "'x'"], loads=self.loads("5,7,x"))

    def test_missing_count(self):
        self.plan(words=["LOADS", "line 1", "column 2"], loads=self.loads("5,,7"))

    def test_too_many_rows(self):
        self.plan(words=["oads", "4000000000", "2147483647"],
                  loads=self.loads("2000000000,2000000000"))

    def test_ragged_lines(self):
        self.plan("--ranks", 2, words=["LOADS", "line 2", "2 columns", "3"],
                  loads=self.loads("1,2,3\n4,5"))

    def test_wrong_number_of_lines(self):
        self.plan("--ranks", 4, words=["LOADS", "2 lines", "4 ranks"],
                  loads=self.loads("1,2,3,4\n4,5,6,7"))

    def test_too_many_experts(self):
        self.plan(words=["LOADS", "4096"], loads=self.loads(",".join(["1"] * 4097)))

    def test_layer_for_csv(self):
        self.plan("--layer", 3, words=["--layer", "3", "trace"])

    def test_layer_beyond_the_trace(self):
        self.plan("--layer", 26, words=["--layer", "26", "[0, 25]"], loads=TRACE)

    def test_step_beyond_the_trace(self):
        self.plan("--step", 99999, words=["--step", "99999", "[0, "], loads=TRACE)

    def test_trace_that_is_no_zip(self):
        self.plan(words=["broken.npz"], loads=self.write("broken.npz", "not a zip"))

    def test_owner_outside_the_ranks(self):
        path = self.write("owners.txt", "0,0,1,1,2,2,3,4")
        self.plan("--ranks", 4, "--owners", path, words=["--owners", "value 7", "4", "[0, 3]"])

    def test_owners_folder(self):
        self.plan("--owners", self.folder, words=["--owners", "cannot be read", "directory"])

    def test_owners_of_the_wrong_length(self):
        path = self.write("owners.txt", "0,0,1")
        self.plan("--owners", path, words=["--owners", "3 values", "8 expected"])

    def test_domains_with_a_gap(self):
        self.plan("--ranks", 4, "--domains", "0-1,3", words=["--domains", "0-1,3", "rank 2"])

    def test_domains_that_overlap(self):
        self.plan("--ranks", 4, "--domains", "0-2,2-3", words=["--domains", "rank 2", "two"])

    def test_inactive_rank_outside(self):
        self.plan("--ranks", 4, "--inactive", "4", words=["--inactive", "4", "[0, 3]"])

    def test_all_ranks_inactive(self):
        self.plan("--ranks", 4, "--inactive", "0-3", words=["--inactive", "0-3", "4 ranks"])

    def test_negative_base(self):
        path = self.write("base.txt", "0,0,-5,0")
        self.plan("--ranks", 4, "--base-blocks", path, words=["--base-blocks", "value 2", "-5"])

    def test_speed_of_zero(self):
        path = self.write("speed.txt", "1024,0,1024,1024")
        self.plan("--ranks", 4, "--speed", path, words=["--speed", "value 1", "0", "[1, 1024]"])

    def test_resident_expert_outside(self):
        path = self.write("resident.txt", "-1,-1,8,-1")
        self.plan("--ranks", 2, "--resident", path, words=["--resident", "8", "[-1, 7]"])

    def test_unknown_machine(self):
        self.plan("--machine", "z80", words=["--machine", "'z80'", "h200", "file"])

    def test_machine_field(self):
        path = self.write("machine.json", '{"gflops": 0}')
        self.plan("--hidden", 64, "--inter", 64, "--machine", path,
                  words=["--machine", "gflops", "0", "["])
        path = self.write("machine.json", '{"petaflops": 1}')
        self.plan("--machine", path, words=["--machine", "'petaflops'", "gflops"])
        path = self.write("machine.json", '{"plan_ns": 18446744073709551615}')
        self.plan("--machine", path, words=["--machine", "plan_ns: 18446744073709551615 is above"])
        path = self.write("machine.json", '{"a\\u0000b\\u001b": 1}')
        self.plan("--machine", path, words=["--machine", "unknown", "gflops"])
        path = self.write("machine.json", '{"gflops": 700000}\0 and more')
        self.plan("--machine", path, words=["--machine", "no JSON"])
        path = self.write("machine.json", '{"send_mb_per_s": -1}')
        self.plan("--machine", path, words=["--machine: ", "machine.json: send_mb_per_s: -1 is outside [0, 1000000000]"])
        self.plan("--machine", self.write("machine.json", '{"": 1, "": 2}'), words=["machine.json: '' is there twice"])
        path = self.write("machine.json", '{"gflops": 1000, "name": "gflops", "gfl\\u006fps": 2000}')
        self.plan("--machine", path, words=["--machine: ", "machine.json: 'gflops' is there twice"])
        path = self.write("machine.json", "{")
        self.plan("--machine", path, words=["--machine", "machine.json", "no JSON"])

    def test_files_without_an_end(self):
        for option in ["--owners", "--machine"]:
            self.plan(option, "/dev/zero", words=[option, "/dev/zero", "at most"])

    def test_json_nested_without_an_end(self):
        deep = "[" * 1000000 + "]" * 1000000
        path = self.write("machine.json", '{"gflops": ' + deep + "}")
        self.plan("--machine", path, words=["--machine", "gflops", "array is no integer"])
        path = self.write("owners.json", '{"schema": "megaflux.owners/1", "num_experts": 8, "num_ranks": 8, '
                          '"layers": [{"layer_index": 0, "owner_of": [0, 1, 2, 3, 4, 5, 6, ' + deep + "]}]}")
        self.plan("--owners", path, words=["--owners", "expert 7", "array is outside [0, 7]"])

    def test_json_into_a_missing_folder(self):
        target = self.folder / "no" / "out.json"
        self.rejected("plan", self.loads(), "--json", target, words=["--json", str(target)])

    def test_json_onto_a_full_disk_says_why(self):
        result = call("plan", self.loads(), "--json", "/dev/full")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--json: /dev/full", result.stderr)
        self.assertIn("No space left", result.stderr)


class BadRunInput(ProgramTest):
    def run_with(self, *options, words):
        target = self.folder / "out.json"
        self.rejected("run", "--json", target, *options, words=words)
        self.assertFalse(target.exists())

    def test_ranks(self):
        self.run_with("--ranks", 0, words=["--ranks", "0", "[1,"])

    def test_hidden(self):
        self.run_with("--hidden", 0, words=["--hidden", "0", "[1, 65536]"])

    def test_dtype(self):
        self.run_with("--dtype", "fp64", words=["--dtype", "'fp64'", "bf16|fp32"])

    def test_route(self):
        self.run_with("--route", "hexagonal", words=["--route", "'hexagonal'", "zipf-k3"])

    def test_inject(self):
        self.run_with("--inject", "gremlin", words=["--inject", "'gremlin'", "stale-slot"])

    def test_trace(self):
        self.run_with("--trace", "/nowhere/x.npz", words=["/nowhere/x.npz"])

    def test_topk_above_the_experts(self):
        self.run_with("--route", "balanced", "--experts", 4, "--topk", 5, "--ranks", 2,
                      words=["--topk: 5 ", "[1, 4]"])

    def test_IC_59_options_without_effect_are_refused(self):
        self.run_with("--experts", 8, words=["--experts", "8", "--route"])
        self.run_with("--topk", 2, words=["--topk", "2", "--route"])
        self.run_with("--route", "near", "--layer", 3, words=["--layer", "3", "--route"])
        self.run_with("--route", "near", "--trace", TRACE, words=["--trace", "--route"])

    def test_family_that_does_not_exist_for_the_shape(self):
        self.run_with("--route", "zipf-k6", "--experts", 64, "--topk", 8,
                      words=["--route", "64 / 8", "12"])

    def test_capacity(self):
        self.run_with("--capacity", 128, words=["--capacity", "128", "256"])
        self.run_with("--capacity", 300, words=["--capacity: 300 ", "multiple of 128"])

    def test_more_ranks_than_threads_make_sense(self):
        self.run_with("--ranks", 129, words=["--ranks", "129", "[1, 128]"])

    def test_more_tokens_than_the_step_has(self):
        self.run_with("--tokens", 8328, words=["--tokens", "8328", "[0, 8327]"])

    def test_plan_file_that_is_no_plan(self):
        path = self.write("x.mfpl", "MFPL")
        self.run_with("--plan", path, words=["--plan", "x.mfpl"])
        self.run_with("--plan", self.folder, words=["--plan", "cannot be read", "directory"])
        self.run_with("--plan", "/dev/zero", words=["--plan", "/dev/zero", "at most"])

    def test_width_at_which_bf16_rounds_too_coarsely(self):
        self.run_with("--hidden", 15, words=["--hidden", "15", "16", "bf16", "fp32"])
        self.ok("run", "--hidden", 15, "--inter", 15, "--tokens", 64, "--dtype", "fp32")

    def test_both_directions(self):
        self.run_with("--backward", "--forward-only", words=["--forward-only", "--backward"])


class BadCommand(ProgramTest):
    def test_no_command(self):
        self.rejected(words=["command", "run|plan|", "|doctor"])

    def test_unknown_command(self):
        self.rejected("dance", words=["dance"])

    def test_help_is_no_error(self):
        for command in [[], ["run"], ["plan"], ["bench"], ["bench", "plan"], ["doctor"]]:
            result = call(*command, "--help")
            self.assertEqual((result.returncode, result.stderr), (0, ""), command)
            self.assertIn("Example", result.stdout, command)

    def test_version(self):
        result = call("--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"^megaflux \d+\.\d+\.\d+\n$")
