"""The forward over shapes, small batches and skewed routing: every case of the table in one go, each a process of its own.

    forward_table.py MEGAFLUX --devices 2 --commit HASH --out forward.jsonl

Parts, all of them unless --parts names some:
  shapes  two ranks on a device each, large layers; balanced beside stock PyTorch (which takes a GPU a rank), and zipf-k3
  decode  two ranks, 1 to 256 tokens a rank
  skew    eight ranks on the devices, E = 256, the skewed route families; replicas resident and pulled
  gate    eight ranks, three shapes, 256 to 4096 tokens, even to skewed: is the gate, calibrated first, as good as the
          better one of fixed placement and of replicas at any cost? 20 minutes on one H200; --gate-tokens takes a part
A case that fails is named and the others go on; status 1 says that there was one. A case that does not fit is "not run:
memory". Standard library only; the stock side takes the python3 that has PyTorch (--python).
"""
import argparse
import pathlib
import re
import shlex
import shutil
import sys
import tempfile

import cell_runner

ROOT = pathlib.Path(__file__).resolve().parents[1]
STOCK = pathlib.Path(__file__).resolve().parent / "baselines" / "torch_forward.py"
LARGE = ((4096, 1536, 128, 16384), (4096, 1536, 128, 4096), (7168, 2048, 64, 8192), (2048, 768, 128, 16384),
         (2048, 768, 128, 4096))
SKEWED = ("zipf-k3", "zipf-k6", "hot-1.5", "real-median", "real-high", "real-extreme")
SKEWED_EXPERTS = 256
GATED = ((4096, 1536, 128), (2048, 768, 128), (7168, 2048, 64))
GATED_TOKENS = (256, 1024, 4096)
GATED_ROUTES = ("balanced", "near", "hot-1.5", "zipf-k3", "zipf-k6", "real-extreme")
PARTS = ("shapes", "decode", "skew", "gate")
GATE_IS_RIGHT = 0.99  # of the better choice's time
GATE_RATIO = re.compile(r"^gate_ratio ([\d.]+)$", re.M)
GATE_PLAN = re.compile(r"^gate_plan (.+)$", re.M)


def layer(hidden, inter, experts, tokens):
    return ["--hidden", hidden, "--inter", inter, "--experts", experts, "--tokens", tokens]


def routing(route, experts, traces):
    trace = ["--trace", f"{traces}/{cell_runner.COUNTS[experts]}"] if route.startswith("real") else []
    return ["--route", route, *trace]


def gate_cases(bench, args, scratch):
    """Machine files first, each ahead of its shape's cells; zipf-k6 takes 12 experts an expert of a token."""
    for shape in GATED:
        machine = f"{scratch}/{'_'.join(map(str, shape))}.json"
        yield [args.program, "calibrate", "--ranks", 8, "--devices", min(args.devices, 8), *layer(*shape, 4096),
               "--out", machine]
        for tokens in args.gate_tokens:
            for route in GATED_ROUTES:
                if route != "zipf-k6" or shape[2] >= 96:
                    yield bench(8, *layer(*shape, tokens), *routing(route, shape[2], scratch), "--objective", "cost",
                                "--machine", machine, "--sides", "fixed,ungated", "--replays", args.gate_replays)


def cases(args, scratch):
    """The commands of all parts. `scratch` holds the recorded counts, and takes machine files."""
    recorded = ["--commit", args.commit] + (["--out", args.out] if args.out else [])

    def bench(ranks, *options):
        return [args.program, "bench", "forward", "--ranks", ranks, "--devices", min(args.devices, ranks), *options,
                *recorded]

    found = []
    for shape in LARGE if "shapes" in args.parts else ():
        found.append([args.python, STOCK, args.program, "--ranks", 2, *layer(*shape), "--launches", 5,
                      "--pairs", 20 if shape[3] <= 8192 else 5, *recorded])
        found.append(bench(2, *layer(*shape), "--route", "zipf-k3"))
    for tokens in [2**n for n in range(9)] if "decode" in args.parts else ():
        found.append(bench(2, *layer(4096, 1536, 128, tokens), "--route", "balanced", "--planner", "fixed", "--slots", 0))
    for route in SKEWED if "skew" in args.parts else ():
        found.append(bench(8, *layer(4096, 1536, SKEWED_EXPERTS, 4096), *routing(route, SKEWED_EXPERTS, scratch)))
    if "gate" in args.parts:
        found += gate_cases(bench, args, scratch)
    return [[str(word) for word in command] for command in found]


def is_there(command, option):
    """True unless the option names a file that is missing."""
    return option not in command or pathlib.Path(command[command.index(option) + 1]).is_file()


def why_incomplete(command, out):
    """What a case that ended well has left out, or an empty text."""
    if "calibrate" in command and not is_there(command, "--out"):
        return "failed: no machine file"
    return "failed: no gate_ratio" if "--machine" in command and not GATE_RATIO.search(out) else ""


def run_case(command, args):
    """Runs one case: its text, and why it gave no figures, or an empty one."""
    if command[0] == args.python and args.devices < 2:
        return "", "not run: stock takes a GPU a rank, 2 in all"
    if not is_there(command, "--machine"):
        return "", "not run: calibrate left no machine file"
    ended = cell_runner.run_in_group(command, args.deadline)
    why = cell_runner.why_no_figures(ended, args.deadline) or why_incomplete(command, ended.out)
    sys.stdout.write(ended.out)
    if not why.startswith("not run"):
        sys.stderr.write(ended.err)
    return ended.out, why


def gate_summary(cells):
    """`cells`: ratio and plan by command. Times of one plan differ by more than a per cent: the plan says what was decided."""
    right = sum(ratio >= GATE_IS_RIGHT for ratio, _ in cells.values())
    decided = sum(plan.endswith(", the better one") for _, plan in cells.values())
    wrong = [f"  {ratio:.4f}  {plan}: {command}" for command, (ratio, plan) in cells.items() if ratio < GATE_IS_RIGHT]
    return "\n".join([f"\nThe gate was right to a per cent in {right} of {len(cells)} cells, and took the better choice's plan in "
                      f"{decided}."] + wrong)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="megaflux, of a build of preset cuda")
    parser.add_argument("--devices", type=int, default=1, help="GPUs; ranks share them if they are fewer")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--gate-tokens", nargs="+", type=int, choices=GATED_TOKENS, default=GATED_TOKENS,
                        help="rows of the gate's table, so that calls can share them")
    parser.add_argument("--gate-replays", type=int, default=5, help="samples of a placement, a second each")
    parser.add_argument("--data", default=ROOT / "data", help="folder of the recorded counts")
    parser.add_argument("--python", default="python3", help="that has PyTorch")
    parser.add_argument("--deadline", type=int, default=300, help="seconds a case may take")
    parser.add_argument("--commit", default="", help="that the program was built from")
    parser.add_argument("--out", help="file that lines are appended to")
    parser.add_argument("--dry-run", action="store_true", help="say what would run")
    args = parser.parse_args()
    for name in ("devices", "deadline", "gate_replays"):
        if getattr(args, name) < 1:
            parser.error(f"--{name.replace('_', '-')}: {getattr(args, name)} is below 1, the least")
    for counts in cell_runner.COUNTS.values():
        if not (pathlib.Path(args.data) / counts).is_file():
            parser.error(f"--data: there is no {counts} in {args.data}")
    if not args.dry_run and not shutil.which(args.program):
        parser.error(f"program: {args.program} is not there, or cannot be run")
    why = cell_runner.why_no_appending(args.out) if args.out and not args.dry_run else ""
    if why:
        parser.error(f"--out: {why}")
    return args


def main():
    args = parse_arguments()
    cell_runner.end_on_signals("forward_table.py")
    with tempfile.TemporaryDirectory() as scratch:
        for counts in cell_runner.COUNTS.values():
            cell_runner.store(pathlib.Path(args.data) / counts, pathlib.Path(scratch) / counts)
        num_failed, gate = 0, {}
        for command in cases(args, scratch):
            print(f"\n$ {shlex.join(command)}", flush=True)
            text, why = ("", "") if args.dry_run else run_case(command, args)
            if why:
                print(why, flush=True)
            if ratio := GATE_RATIO.search(text):
                plan = GATE_PLAN.search(text)
                gate[shlex.join(command)] = float(ratio[1]), plan[1] if plan else "unknown"
            num_failed += why.startswith("failed")
        if gate:
            print(gate_summary(gate))
    return 1 if num_failed else 0


if __name__ == "__main__":
    sys.exit(main())
