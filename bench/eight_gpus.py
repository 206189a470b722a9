"""Eight ranks on eight GPUs, or on fewer: the paper's comparison and what belongs to it, within minutes of machine time.

    eight_gpus.py --build build/cuda --commit HASH --out eight.jsonl
    eight_gpus.py --devices 4 --resume --commit HASH --out eight.jsonl
    eight_gpus.py --summary eight.jsonl --virtual two.jsonl
    eight_gpus.py --dry-run

Builds nothing: the programs lie in --build or in its bin. Always P = 8 ranks; with fewer devices several share one, and
every line of the program says ranks=virtual. Most telling cells come first (eight_gpus_cells.py), and the run ends before a
cell that would not fit into --budget. Parts, all of them unless --parts names some:
  layer      a small layer with every check, 8 ranks in one process
  forward    fixed, staged, pipelined and the ideals, over sizes and route families; hidden fraction
  head, plan from ids to row maps; the planner on the host and as a kernel
  stock      PyTorch and NCCL, a rank a GPU: 8 devices alone
  processes  tests of ranks in processes of their own
  suite      the GPU suite, size quick, a program at a time
--out takes lines of bench/results: those of a cell are appended when it has ended well, with one of `cell_seconds` or
`tests_passed` behind, which --resume looks for. Status 1 says that a cell failed. Standard library only.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import re
import shlex
import sys
import tempfile
import time

import cell_runner
import eight_gpus_cells
import eight_gpus_summary

ROOT = eight_gpus_cells.ROOT
TESTS = ("layer", "processes", "suite")
COUNTS = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped")
NONE_RAN = 77  # status of a test program that can run nothing


def layer_run(out):
    """What `megaflux run --json -` has said, or nothing if that is something else."""
    try:
        run = json.loads(out)
    except ValueError:
        return {}
    return run if isinstance(run, dict) and {"checks", "failed_checks", "devices"} <= run.keys() else {}


def counts_of(cell, out):
    """[passed, failed, skipped] of what a cell of tests has said, or nothing if it did not get that far."""
    if cell.part == "layer":
        run = layer_run(out)
        return [len(run["checks"]) - len(run["failed_checks"]), len(run["failed_checks"]), 0] if run else []
    found = COUNTS.findall(out)
    return [int(number) for number in found[-1]] if found else []


def case_of(cell, devices):
    return f"{cell.case},devices={devices}"


def finished(path, args):
    """Cases of cells that need no second run. Failed tests do, and what did not fit into memory does not."""
    return {line["case"] for line in eight_gpus_summary.read_lines(path)
            if line["commit"] == args.commit and (line["figure"] == "cell_seconds" or
                                                  line["figure"] == "tests_passed" and line["samples"][1] == 0)}


class Run:
    """The cells of one call, against its budget."""

    def __init__(self, args, cell_file):
        self.args, self.cell_file = args, pathlib.Path(cell_file)
        self.begin, self.estimated, self.measured = time.monotonic(), 0.0, 0.0
        self.num_failed = 0
        self.uuid = ""  # of the first device, as soon as a cell has named it

    def left(self):
        return self.args.budget - (time.monotonic() - self.begin)

    def expected(self, cell):
        """Seconds, by the estimate and by how cells before have kept to theirs."""
        return cell.seconds * max(1.0, self.measured / self.estimated if self.estimated else 1.0)

    def all(self, cells):
        done = finished(self.args.out, self.args) if self.args.resume else set()
        cells = [cell for cell in cells if case_of(cell, self.args.devices) not in done]
        for i, cell in enumerate(cells):
            expected = self.expected(cell)
            if not cell.obstacle and expected > self.left():
                print(f"\nbudget: {len(cells) - i} cells not run; the next takes about {expected:.0f} s, "
                      f"{max(self.left(), 0):.0f} are left", flush=True)
                break
            print(f"\n[{time.monotonic() - self.begin:.0f} s] $ {shlex.join(cell.command)}", flush=True)
            why = f"not run: {cell.obstacle}" if cell.obstacle else self.one(cell)
            if why:
                print(why, flush=True)
            self.num_failed += why.startswith("failed")

    def one(self, cell):
        """Runs one cell and keeps its lines; why it gave no figures, or an empty text."""
        self.cell_file.unlink(missing_ok=True)
        wanted = max(self.args.deadline, 3 * self.expected(cell))
        deadline, begin = min(wanted, self.left()), time.monotonic()
        ended = cell_runner.run_in_group(cell.command, deadline)
        seconds = time.monotonic() - begin
        why = cell_runner.why_no_figures(ended, deadline)
        if cell.part != "layer":
            sys.stdout.write(ended.out)
        sys.stderr.write("" if why.startswith("not run") else ended.err)
        if ended.status is None and deadline < wanted:
            return "not run: budget, which ended it"
        if cell.part in TESTS:
            return self.keep_tests(cell, ended, why)
        return self.keep(cell, seconds, why) if why in ("", "not run: memory") else why

    def keep(self, cell, seconds, why):
        if not why:
            self.estimated += cell.seconds
            self.measured += seconds
        lines = [] if why else eight_gpus_summary.read_lines(self.cell_file)
        if not why and not lines:
            return "failed: no figures"
        if not why and (wrong := eight_gpus_summary.why_no_results(self.cell_file)):
            return f"failed: {wrong}"
        self.uuid = next((line["gpu_uuid"] for line in lines if "gpu_uuid" in line), self.uuid)
        own = self.line(cell, "cell_seconds", (round(seconds, 2), "s"), [round(seconds, 2)])
        self.append(lines + [own | ({"outcome": why} if why else {})])
        return why

    def keep_tests(self, cell, ended, why):
        if ended.status == NONE_RAN:
            return "not run: no test can run here"
        counts = counts_of(cell, ended.out)
        if not counts:
            return why or "failed: no counts"
        if cell.part == "layer":
            self.uuid = layer_run(ended.out)["devices"][0]["uuid"]
        self.append([self.line(cell, "tests_passed", (counts[0], "tests"), counts)])
        return f"failed: {counts[1]} tests" if counts[1] else why

    def line(self, cell, figure, value, samples):
        return {"figure": figure, "value": value[0], "unit": value[1], "case": case_of(cell, self.args.devices),
                "samples": samples, "clock": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "gpu_uuid": self.uuid, "commit": self.args.commit,
                "command": " ".join(word.rsplit("/", 1)[-1] for word in cell.command)}

    def append(self, lines):
        """In one piece, so that an interruption leaves whole cells; behind a line that was cut off, on a new one."""
        for line in lines:
            line.pop("schema", None)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        with open(self.args.out, "ab+") as out:
            if out.tell() > 0:
                out.seek(-1, os.SEEK_END)
                text = text if out.read(1) == b"\n" else "\n" + text
            out.write(text.encode())


def show(cells, args):
    """Every cell in its order, with the second at which it starts if all keep to their estimates."""
    start = 0.0
    for i, cell in enumerate(cells, 1):
        fits = "" if start + cell.seconds <= args.budget else ", behind the budget"
        print(f"{i:4} {cell.part:<9} at {start:.0f} s, takes {cell.seconds:.0f} s{fits}  {case_of(cell, args.devices)}\n"
              f"       $ {shlex.join(cell.command)}")
        if cell.obstacle:
            print(f"       not run: {cell.obstacle}")
        start += 0 if cell.obstacle else cell.seconds
    print(f"{len(cells)} cells, {start:.0f} s; the budget is {args.budget} s")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/cuda", help="folder of the programs")
    parser.add_argument("--devices", type=int, choices=[8, 4, 2, 1], default=8)
    parser.add_argument("--budget", type=int, default=480, help="seconds of all cells together")
    parser.add_argument("--deadline", type=int, default=90, help="seconds a cell may take, or thrice its estimate")
    parser.add_argument("--replays", type=int, default=3, help="samples of each placement")
    parser.add_argument("--parts", nargs="+", choices=eight_gpus_cells.PARTS, default=eight_gpus_cells.PARTS)
    parser.add_argument("--resume", action="store_true", help="leave out cells that --out has of this commit and --devices")
    parser.add_argument("--python", default="python3", help="that has PyTorch")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "data", help="folder of the recorded counts")
    parser.add_argument("--commit", default="", help="that the programs were built from")
    parser.add_argument("--out", help="file that lines are appended to")
    parser.add_argument("--dry-run", action="store_true", help="say what would run, and run nothing")
    parser.add_argument("--summary", metavar="FILE", help="print the tables of a file, and run nothing")
    parser.add_argument("--virtual", metavar="FILE", help="results of virtual ranks to compare with")
    args = parser.parse_args()
    for name in ("budget", "deadline", "replays"):
        if getattr(args, name) < 1:
            parser.error(f"--{name}: {getattr(args, name)} is below 1, the least")
    for name in ("summary", "virtual"):
        path = getattr(args, name)
        if path and not pathlib.Path(path).is_file():
            parser.error(f"--{name}: {path} is no file")
    if not (args.summary or args.dry_run):
        for name in ("commit", "out"):
            if not getattr(args, name):
                parser.error(f"--{name}: missing; every line names its commit, and goes to a file")
    return parser, args


def programs_of(build):
    """The folder with the programs; as for ./test --gpu, the build itself or its bin."""
    folder = build.resolve()
    return folder / "bin" if (folder / "bin").is_dir() else folder


def check_files(parser, args):
    """What is missing or in the way, before a cell has run."""
    for name in cell_runner.COUNTS.values():
        if not (args.data / name).is_file():
            parser.error(f"--data: there is no {name} in {args.data}")
    if why := cell_runner.why_no_appending(args.out):
        parser.error(f"--out: {why}")


def main():
    parser, args = parse_arguments()
    for name in ("summary", "virtual", "out"):
        if why := eight_gpus_summary.why_no_results(getattr(args, name)):
            parser.error(f"--{name}: {why}")
    if args.summary:
        eight_gpus_summary.show(args.summary, args.virtual)
        return 0
    cell_runner.end_on_signals("eight_gpus.py")
    folder = programs_of(args.build)
    if not args.dry_run and not (folder / "megaflux").is_file():
        parser.error(f"--build: there is no megaflux in {folder}")
    if not args.dry_run:
        check_files(parser, args)
    with contextlib.ExitStack() as stack:
        scratch = "SCRATCH" if args.dry_run else stack.enter_context(tempfile.TemporaryDirectory())
        setting = eight_gpus_cells.Setting(
            folder=folder, devices=args.devices, replays=args.replays, python=args.python, traces=f"{scratch}/traces",
            commit=args.commit, out=f"{scratch}/cell.jsonl")
        cells = [cell for cell in eight_gpus_cells.all_cells(setting) if cell.part in args.parts]
        if args.dry_run:
            show(cells, args)
            return 0
        pathlib.Path(setting.traces).mkdir()
        for name in cell_runner.COUNTS.values():
            cell_runner.store(args.data / name, f"{setting.traces}/{name}")
        run = Run(args, setting.out)
        run.all(cells)
    print()
    eight_gpus_summary.show(args.out, args.virtual)
    return 1 if run.num_failed else 0


if __name__ == "__main__":
    sys.exit(main())
