"""The scripts around `bench forward`: sides that answer, are silent or end, and cases that fail. No torch, no GPU."""

import argparse
import contextlib
import io
import json
import multiprocessing
import subprocess
import sys
import threading
import unittest
import unittest.mock

from program import SOURCE_DIR, ProgramTest, imported


class EveryScript(unittest.TestCase):
    """Whoever wants to know the options of a script of bench/ needs nothing but Python."""

    def call(self, script, *arguments):
        # -S: without what is installed beside the standard library.
        return subprocess.run([sys.executable, "-S", str(script), *arguments], capture_output=True, text=True, timeout=60)

    def test_help_and_wrong_options(self):
        scripts = [path for path in (SOURCE_DIR / "bench").rglob("*.py") if "add_argument" in path.read_text()]
        self.assertGreaterEqual(len(scripts), 5)
        for script in scripts:
            with self.subTest(script=script.name):
                shown = self.call(script, "--help")
                self.assertEqual(0, shown.returncode, shown.stderr)
                self.assertIn(f"usage: {script.name}", shown.stdout)
                wrong = self.call(script, "--no-such-option")
                self.assertEqual(2, wrong.returncode, wrong.stderr)
                self.assertIn(f"{script.name}: error:", wrong.stderr)

    def test_stock_without_pytorch_says_so(self):
        told = self.call(SOURCE_DIR / "bench/baselines/torch_forward.py", "megaflux", "--ranks", "1")
        self.assertEqual(1, told.returncode)
        self.assertEqual("torch_forward.py: No module named 'torch'; the stock side takes a Python with PyTorch\n", told.stderr)
        ended = imported("cell_runner").Ended(told.returncode, told.stdout, told.stderr)
        self.assertEqual("not run: its Python has no torch", imported("cell_runner").why_no_figures(ended, 1))


    def test_stock_refuses_what_gives_no_figures(self):
        for options, words in ((("--ranks", "0"), "--ranks: 0 is below 1"), (("--pairs", "0"), "--pairs: 0 is below 1"),
                               (("--launches", "-1"), "--launches: -1 is below 1"), (("--lead-ms", "0"), "--lead-ms: 0 is"),
                               (("--out", "/"), "--out: /: Is a directory")):
            told = self.call(SOURCE_DIR / "bench/baselines/torch_forward.py", "megaflux", *options)
            self.assertEqual(2, told.returncode)
            self.assertIn(words, told.stderr)


def doubled(rank, args, folder, questions):
    """A rank that answers with twice the launches it was asked for, and a rank more."""
    questions.send(f"GPU-{rank}")
    while (question := questions.recv()) is not None:
        questions.send(2 * question[1] + rank)


class Sides(ProgramTest):
    """torch_forward.py: each side's answers have a deadline."""

    def setUp(self):
        super().setUp()
        self.script = imported("torch_forward", "baselines")

    def ours(self, body, deadline=5):
        program = self.write("megaflux", f"#!{sys.executable}\nimport sys, time\n{body}\n")
        program.chmod(0o755)
        args = argparse.Namespace(program=str(program), deadline=deadline, ranks=2, hidden=64, inter=64, experts=8, topk=2,
                                  tokens=4, route="zipf-k3", planner="megaflux", slots=2, num_sms=0, trace=None)
        side = self.script.Ours(args, "routes.npz")
        self.addCleanup(side.process.stdout.close)
        self.addCleanup(side.close)
        return side

    def test_our_side_is_told_shape_routing_and_devices(self):
        said = self.ours("print(*sys.argv[1:], flush=True)").line()
        for words in ("bench forward --serve", "--routes-out routes.npz", "--devices 2", "--ranks 2",
                      "--route zipf-k3 --planner megaflux --slots 2"):
            self.assertIn(words, said)

    def test_our_side_answers(self):
        side = self.ours("print('ready', flush=True)\nfor line in sys.stdin: print(len(line) / 2, flush=True)")
        side.wait_ready()
        self.assertEqual(5, side.ms("layer", 5, 7))
        self.assertEqual(5.5, side.ms("layer", 50, 7))

    def test_our_side_ends_or_is_silent(self):
        with self.assertRaisesRegex(RuntimeError, "megaflux ended"):
            self.ours("sys.exit(1)").wait_ready()
        with self.assertRaisesRegex(RuntimeError, "no answer in 2 s.*half"):
            self.ours("print('half', end='', flush=True)\ntime.sleep(30)", deadline=2).wait_ready()
        with self.assertRaisesRegex(RuntimeError, "said 'no'"):
            self.ours("print('no', flush=True)").wait_ready()

    def torch_side(self, *ranks, deadline=5):
        """A side whose ranks are threads: each gets its end of a pipe."""
        side = self.script.Torch.__new__(self.script.Torch)
        side.deadline, side.processes, side.pipes = deadline, [], []
        for rank in ranks:
            ours, theirs = multiprocessing.Pipe()
            side.pipes.append(ours)
            thread = threading.Thread(target=rank, args=(theirs,))
            thread.start()
            self.addCleanup(thread.join)
            self.addCleanup(ours.close)
            self.addCleanup(theirs.close)
        return side

    def test_the_slowest_rank_counts(self):
        side = self.torch_side(*(lambda pipe, ms=ms: pipe.send(ms + pipe.recv()[1]) for ms in (1, 5, 3)))
        self.assertEqual(15, side.ms("layer", 10, 0))

    def test_ranks_are_processes(self):
        side = self.script.Torch(argparse.Namespace(ranks=2, deadline=60), str(self.folder), doubled)
        self.addCleanup(side.close)
        self.assertEqual(["GPU-0", "GPU-1"], side.answers())
        self.assertEqual(21, side.ms("layer", 10, 0))
        side.close()
        self.assertEqual([0, 0], [process.exitcode for process in side.processes])

    def test_a_rank_fails_ends_or_is_silent(self):
        def failing(pipe):
            pipe.send(RuntimeError("torch, rank 1: out of memory"))

        def answering(pipe):
            pipe.send(1.0)

        def silent(pipe):
            pass

        for second, words in ((failing, "rank 1: out of memory"), (lambda pipe: pipe.close(), "rank 1: its process ended"),
                              (silent, r"ranks \[1\]: no answer in 0.2 s")):
            with self.assertRaisesRegex(RuntimeError, words):
                self.torch_side(answering, second, deadline=0.2).answers()


class Table(ProgramTest):
    """forward_table.py: its cases, and what it says of those that give no figures."""

    def table(self, *options, body="", status=0):
        program = self.write("megaflux", f"#!{sys.executable}\nimport sys, time\n{body}\n")
        program.chmod(0o755)
        script = imported("forward_table")
        out, err = io.StringIO(), io.StringIO()
        arguments = ["forward_table.py", str(program), *options]
        with unittest.mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(out), \
                contextlib.redirect_stderr(err), unittest.mock.patch.object(script.cell_runner.signal, "signal"):
            try:
                found = script.main()
            except SystemExit as end:
                found = end.code
        self.assertEqual(status, found, err.getvalue())
        return out.getvalue() if status != 2 else err.getvalue()

    def test_cases(self):
        text = self.table("--dry-run", "--devices", "2", "--commit", "abc", "--out", "x.jsonl")
        commands = [line for line in text.splitlines() if line.startswith("$ ")]
        measuring = [command for command in commands if " calibrate " not in command]
        self.assertEqual(5 + 5 + 9 + 6 + 3 * (6 + 6 + 5), len(measuring))
        self.assertEqual(3, len(commands) - len(measuring))
        for words in ("--hidden 7168 --inter 2048 --experts 64 --tokens 8192", "--tokens 256 --route balanced",
                      "--ranks 8 --devices 2 --hidden 4096 --inter 1536 --experts 256", "--route real-extreme --trace",
                      "torch_forward.py"):
            self.assertIn(words, text)
        for command in measuring:
            self.assertRegex(command, "--commit abc --out x.jsonl( |$)")
        self.assertNotIn("--devices 2", self.table("--dry-run"))

    def test_the_gate_weighs_the_machine_file_of_its_shape(self):
        body = """
arguments = dict(zip(sys.argv[2::2], sys.argv[3::2]))
if sys.argv[1] == "calibrate":
    open(arguments["--out"], "w").write(arguments["--hidden"])
else:
    arguments = dict(zip(sys.argv[3::2], sys.argv[4::2]))
    assert open(arguments["--machine"]).read() == arguments["--hidden"]
    assert arguments["--sides"] == "fixed,ungated" and arguments["--objective"] == "cost"
    print("gate_ratio", 0.98 if arguments["--tokens"] == "256" and arguments["--route"] == "near" else 0.99)
    print("gate_plan", "of its own" if arguments["--route"] == "near" else "ungated, the better one")
"""
        text = self.table("--parts", "gate", body=body)
        self.assertIn("right to a per cent in 48 of 51 cells, and took the better choice's plan in 42.", text)
        self.assertEqual(3, len([line for line in text.splitlines() if line.startswith("  0.9800  ") and "near" in line]))

    def test_a_part_of_the_gates_table(self):
        text = self.table("--dry-run", "--parts", "gate", "--gate-tokens", "256", "--gate-replays", "7")
        self.assertEqual((17, 17), (text.count("--tokens 256 "), text.count("--replays 7 ")))
        self.assertIn("--gate-replays: 0 is below 1", self.table("--dry-run", "--gate-replays", "0", status=2))

    def test_the_gate_is_not_judged_by_what_is_missing(self):
        calibrating = "if sys.argv[1] != 'calibrate': sys.exit('it ran without a machine file')\n"
        for body, failed in ((calibrating + "sys.exit(2)", "failed: status 2"),
                             (calibrating, "failed: no machine file")):
            text = self.table("--parts", "gate", body=body, status=1)
            self.assertEqual((3, 51), (text.count(failed), text.count("not run: calibrate left no machine file")))
        memory = calibrating + "sys.exit('megaflux: error: calibrate: not run: memory; device 0 needs 200 GB')"
        self.assertEqual(3, self.table("--parts", "gate", body=memory).count("not run: memory"))
        silent = "if sys.argv[1] == 'calibrate': open(sys.argv[sys.argv.index('--out') + 1], 'w').write('{}')"
        self.assertEqual(51, self.table("--parts", "gate", body=silent, status=1).count("failed: no gate_ratio"))

    def test_no_more_devices_than_ranks(self):
        text = self.table("--dry-run", "--parts", "gate", "--devices", "16")
        self.assertEqual(3 + 51, text.count("--ranks 8 --devices 8 "))

    def test_stock_takes_a_gpu_a_rank(self):
        text = self.table("--parts", "shapes", "--python", "no-such-python")
        self.assertEqual(5, text.count("not run: stock takes a GPU a rank"))

    def test_a_case_without_figures_is_named(self):
        for said in ("cudaMalloc(&memory, bytes): cudaErrorMemoryAllocation, out of memory",
                     "bench forward: not run: memory; device 0 needs 200 GB (weights 200 GB) and has 139 GB free"):
            text = self.table("--parts", "skew", body=f"sys.exit('megaflux: error: {said}')")
            self.assertEqual(6, text.splitlines().count("not run: memory"))
        failing = "sys.exit(3 if 'zipf-k6' in sys.argv else 0)"
        self.assertEqual(1, self.table("--parts", "skew", body=failing, status=1).count("failed: status 3"))
        stuck = "if 'hot-1.5' in sys.argv: time.sleep(60)"
        text = self.table("--parts", "skew", "--deadline", "1", body=stuck, status=1)
        self.assertEqual(1, text.count("failed: no end in 1 s"))

    def test_bad_input_is_refused_before_a_case_runs(self):
        for options, words in ((("--devices", "0"), "--devices: 0"), (("--deadline", "-1"), "--deadline: -1"),
                               (("--data", "none"), "--data: there is no"),
                               (("--out", str(self.folder)), f"--out: {self.folder}: Is a directory")):
            self.assertIn(words, self.table(*options, body="raise ValueError('it ran')", status=2))


class Picture(ProgramTest):
    """forward_picture.py: what it draws, and what it says of files that are no timelines."""

    def draw(self, text, *options, status=0):
        trace, out = self.write("trace.json", text), self.folder / "out.svg"
        script, err = imported("forward_picture", "gpu"), io.StringIO()
        arguments = ["forward_picture.py", str(trace), str(out), "--end", "40", *options]
        with unittest.mock.patch.object(sys, "argv", arguments), contextlib.redirect_stderr(err):
            try:
                script.main()
                found = 0
            except SystemExit as end:
                found, said = (end.code, err.getvalue()) if isinstance(end.code, int) else (1, end.code)
        self.assertEqual(status, found)
        return out.read_text() if found == 0 else said

    def test_spans_become_bars(self):
        name = {"ph": "M", "name": "thread_name", "pid": 3, "tid": 2, "args": {"name": "math 0"}}
        span = {"ph": "X", "pid": 3, "tid": 2, "ts": 10.0, "dur": 20.0, "name": "multiply fc1 7"}
        text = json.dumps({"traceEvents": [span, name]})
        drawn = self.draw(text, "--ctas", "3")
        self.assertIn(f'x="{110 + 10 * 900 / 40:.1f}"', drawn)
        self.assertIn(f'width="{20 * 900 / 40:.1f}"', drawn)
        self.assertIn("--ctas: ", self.draw(text, "--ctas", "3", "5", status=1))
        for end in ("0", "nan", "1e9"):
            self.assertIn("--end: ", self.draw(text, "--end", end, status=2))

    def test_what_is_no_timeline_is_named(self):
        for text in ("", "{}", "[]", "3", '{"traceEvents": 3}', '{"traceEvents": [3]}', '{"traceEvents": [{}]}',
                     '{"traceEvents": [{"ph": "X", "pid": 0, "tid": 1, "name": "sum"}]}'):
            with self.subTest(text=text):
                self.assertIn("trace.json: no timeline of forward_trace", self.draw(text, status=1))
