"""The forward over shapes, small batches and skewed routing: every case of the table in one go, each a process of its own.

    forward_table.py MEGAFLUX --devices 2 --commit HASH --out forward.jsonl

Parts, all of them unless --parts names some:
  shapes  two ranks on a device each, large layers; balanced beside stock PyTorch (which takes a GPU a rank), and zipf-k3
  decode  two ranks, 1 to 256 tokens a rank
  skew    eight ranks on the devices, E = 256, the skewed route families; replicas resident and pulled
A case that fails is named and the others go on; status 1 says that there was one. A case that does not fit is "not run:
memory". Standard library only; the stock side takes the python3 that has PyTorch (--python).
"""
import argparse
import pathlib
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
COUNTS = "glm52_prefill_counts.npz"  # E = 256


def layer(hidden, inter, experts, tokens):
    return ["--hidden", hidden, "--inter", inter, "--experts", experts, "--tokens", tokens]


def cases(args, traces):
    """The commands of all parts."""
    def bench(ranks, *options):
        return [args.program, "bench", "forward", "--ranks", ranks, "--devices", min(args.devices, ranks), *options]

    found = []
    for shape in LARGE if "shapes" in args.parts else ():
        found.append([args.python, STOCK, args.program, "--ranks", 2, *layer(*shape), "--launches", 5,
                      "--pairs", 20 if shape[3] <= 8192 else 5])
        found.append(bench(2, *layer(*shape), "--route", "zipf-k3"))
    for tokens in [2**n for n in range(9)] if "decode" in args.parts else ():
        found.append(bench(2, *layer(4096, 1536, 128, tokens), "--route", "balanced", "--planner", "fixed", "--slots", 0))
    for route in SKEWED if "skew" in args.parts else ():
        trace = ["--trace", f"{traces}/{COUNTS}"] if route.startswith("real") else []
        found.append(bench(8, *layer(4096, 1536, 256, 4096), "--route", route, *trace))
    recorded = ["--commit", args.commit] + (["--out", args.out] if args.out else [])
    return [[str(word) for word in command + recorded] for command in found]


def run_case(command, args):
    """Runs one case; why it gave no figures, or an empty text."""
    if command[0] == args.python and args.devices < 2:
        return "not run: stock takes a GPU a rank, 2 in all"
    ended = cell_runner.run_in_group(command, args.deadline)
    why = cell_runner.why_no_figures(ended, args.deadline)
    sys.stdout.write(ended.out)
    if not why.startswith("not run"):
        sys.stderr.write(ended.err)
    return why


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="megaflux, of a build of preset cuda")
    parser.add_argument("--devices", type=int, default=1, help="GPUs; ranks share them if they are fewer")
    parser.add_argument("--parts", nargs="+", choices=["shapes", "decode", "skew"], default=["shapes", "decode", "skew"])
    parser.add_argument("--data", default=ROOT / "data", help="folder of the recorded counts")
    parser.add_argument("--python", default="python3", help="that has PyTorch")
    parser.add_argument("--deadline", type=int, default=300, help="seconds a case may take")
    parser.add_argument("--commit", default="", help="that the program was built from")
    parser.add_argument("--out", help="file that lines are appended to")
    parser.add_argument("--dry-run", action="store_true", help="say what would run")
    args = parser.parse_args()
    for name in ("devices", "deadline"):
        if getattr(args, name) < 1:
            parser.error(f"--{name}: {getattr(args, name)} is below 1, the least")
    if not (pathlib.Path(args.data) / COUNTS).is_file():
        parser.error(f"--data: there is no {COUNTS} in {args.data}")
    if not args.dry_run and not shutil.which(args.program):
        parser.error(f"program: {args.program} is not there, or cannot be run")
    why = cell_runner.why_no_appending(args.out) if args.out and not args.dry_run else ""
    if why:
        parser.error(f"--out: {why}")
    return args


def main():
    args = parse_arguments()
    cell_runner.end_on_signals("forward_table.py")
    with tempfile.TemporaryDirectory() as traces:
        cell_runner.store(pathlib.Path(args.data) / COUNTS, pathlib.Path(traces) / COUNTS)
        num_failed = 0
        for command in cases(args, traces):
            print(f"\n$ {shlex.join(command)}", flush=True)
            why = "" if args.dry_run else run_case(command, args)
            if why:
                print(why, flush=True)
            num_failed += why.startswith("failed")
    return 1 if num_failed else 0


if __name__ == "__main__":
    sys.exit(main())
