"""Stock PyTorch against the forward kernel, a rank a GPU: pairs of one run, one side after the other.

    torch_forward.py MEGAFLUX --hidden 4096 --inter 1536 --experts 16 --topk 8 --tokens 8192 --what gemms layer
    torch_forward.py MEGAFLUX --ranks 2 --experts 128 --tokens 4096 --route zipf-k3 --planner megaflux --slots 2

Ours is `megaflux bench forward --serve`, one process for all ranks; torch is one process a rank. Both sides work on the
same ids, which ours draws and writes to a file, and on random data.
  gemms  ours: FC1 with SwiGLU, and FC2. Torch: FC1 and FC2 as two grouped_mm calls, and nothing in between. One rank
  layer  ours: head and whole forward. Torch: the layer of torch_ep.py, its all_to_all included
A pair is a batch of each side, in turn; the slowest rank counts. A batch comes behind --lead-ms of the same side: the
clocks of a GPU depend on what it has just drawn, and whoever comes behind the idler side would run faster. A side is asked
only when the other has answered: kernels of both that wait for peers never share a GPU. Every answer has a deadline, and
whoever misses it ends the run.
Prints milliseconds and TFLOP/s a GPU; --out appends lines of bench/results.
"""
import argparse
import datetime
import json
import math
import multiprocessing
import multiprocessing.connection
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time


class Ours:
    """The other program, which serves all ranks. Its errors go to standard error."""

    def __init__(self, args, routes):
        command = [args.program, "bench", "forward", "--serve", "--routes-out", routes, "--devices", args.ranks]
        for name in ("ranks", "hidden", "inter", "experts", "topk", "tokens", "route", "planner", "slots", "num_sms"):
            command += [f"--{name.replace('_', '-')}", getattr(args, name)]
        if args.trace:
            command += ["--trace", args.trace]
        self.deadline = args.deadline
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def line(self):
        """The next line of its answers."""
        text, end = b"", time.monotonic() + self.deadline
        while not text.endswith(b"\n"):
            readable, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            piece = os.read(self.process.stdout.fileno(), 4096) if readable else b""
            if not piece:
                why = "ended" if readable else f"gave no answer in {self.deadline} s"
                raise RuntimeError(f"{self.process.args[0]} {why} (said {text!r})")
            text += piece
        return text.decode().strip()

    def wait_ready(self):
        said = self.line()
        if said != "ready":
            raise RuntimeError(f"{self.process.args[0]} said {said!r} in the place of ready")

    def ms(self, what, launches, lead):
        self.process.stdin.write(f"{what} {launches} {lead}\n".encode())
        return float(self.line())

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Torch:
    """All ranks of torch; `serve` is the body of a rank's process."""

    def __init__(self, args, folder, serve):
        context = multiprocessing.get_context("spawn")
        self.deadline = args.deadline
        self.pipes, self.processes = [], []
        for rank in range(args.ranks):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(rank, args, folder, theirs), daemon=True)
            process.start()
            theirs.close()  # so that a process that ends is the end of its pipe
            self.pipes.append(ours)
            self.processes.append(process)

    def answers(self):
        """One of each rank."""
        found, end = {}, time.monotonic() + self.deadline
        while len(found) < len(self.pipes):
            waiting = [pipe for pipe in self.pipes if pipe not in found]
            for pipe in multiprocessing.connection.wait(waiting, max(0, end - time.monotonic())):
                try:
                    found[pipe] = pipe.recv()
                except EOFError:
                    raise RuntimeError(f"torch, rank {self.pipes.index(pipe)}: its process ended") from None
                if isinstance(found[pipe], Exception):
                    raise found[pipe]
            if time.monotonic() >= end and len(found) < len(self.pipes):
                missing = [rank for rank, pipe in enumerate(self.pipes) if pipe not in found]
                raise RuntimeError(f"torch, ranks {missing}: no answer in {self.deadline} s")
        return [found[pipe] for pipe in self.pipes]

    def ms(self, what, launches, lead):
        for pipe in self.pipes:
            pipe.send((what, launches, lead))
        return max(self.answers())

    def close(self):
        for pipe in self.pipes:
            try:
                pipe.send(None)
            except OSError:
                pass  # it has ended already
        for process in self.processes:
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()


def case_of(args, executor):
    """Of bench/results; stock has owners alone."""
    slots, planner = (0, "fixed") if executor == "stock" else (args.slots, args.planner)
    return (f"op=forward,H={args.hidden},I={args.inter},E={args.experts},K={args.topk},P={args.ranks},T={args.tokens},"
            f"s={slots},route={args.route},planner={planner},objective=forward,exec={executor},ranks=real")


def append_lines(args, figures, uuid):
    """`figures` are (name, value, unit, case, samples)."""
    with open(args.out, "a", encoding="utf-8") as out:
        for name, value, unit, case, samples in figures:
            line = {
                "figure": name, "value": round(value, 4), "unit": unit, "case": case, "samples": samples,
                "clock": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "gpu_uuid": uuid, "commit": args.commit,
                "command": " ".join(word.rsplit("/", 1)[-1] for word in sys.argv),
            }
            out.write(json.dumps(line) + "\n")


def report(args, what, pairs, uuid):
    flops = 6 * args.tokens * args.topk * args.hidden * args.inter
    pairs = [[round(stock, 5), round(ours, 5)] for stock, ours in pairs]
    ratio = statistics.median(stock / ours for stock, ours in pairs)
    stock, ours = (statistics.median(side) for side in zip(*pairs))
    print(f"{what} {case_of(args, 'mega')}: torch {stock:.4f} ms ({flops / stock / 1e9:.0f} TFLOP/s) ours {ours:.4f} ms "
          f"({flops / ours / 1e9:.0f} TFLOP/s) torch / ours {ratio:.4f} ({min(a / b for a, b in pairs):.3f} ... "
          f"{max(a / b for a, b in pairs):.3f})", flush=True)
    if not args.out:
        return
    mega = case_of(args, "mega")
    if what == "gemms":
        append_lines(args, [("gemm_vs_torch", ratio, "x", mega, pairs)], uuid)
    else:
        append_lines(args, [("stock_speedup", ratio, "x", mega, pairs),
                            ("layer_ms", stock, "ms", case_of(args, "stock"), [a for a, _ in pairs]),
                            ("layer_ms", ours, "ms", mega, [b for _, b in pairs])], uuid)


def compare(args, folder, serve):
    ours = Ours(args, f"{folder}/routes.npz")
    stock = None
    try:
        ours.wait_ready()  # the ids are there
        stock = Torch(args, folder, serve)
        uuid = stock.answers()[0]
        for what in args.what:
            warm_up = [side.ms(what, args.launches, args.launches) for side in (stock, ours)]
            leads = [math.ceil(args.lead_ms / ms) for ms in warm_up]
            pairs = [[side.ms(what, args.launches, lead) for side, lead in zip((stock, ours), leads)]
                     for _ in range(args.pairs)]
            report(args, what, pairs, uuid)
    finally:
        ours.close()
        if stock:
            stock.close()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="megaflux, of a build of preset cuda")
    for name, default in (("ranks", 1), ("hidden", 4096), ("inter", 1536), ("experts", 16), ("topk", 8), ("tokens", 8192),
                          ("slots", 0), ("num-sms", 0), ("pairs", 10), ("launches", 10), ("lead-ms", 150),
                          ("deadline", 120)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--route", default="balanced")
    parser.add_argument("--trace", help="whose counts a real-* route scales")
    parser.add_argument("--planner", default="fixed", help="ours; stock has every expert on its owner")
    parser.add_argument("--what", nargs="+", choices=["gemms", "layer"], help="default: layer; with one rank gemms")
    parser.add_argument("--commit", default="")
    parser.add_argument("--out")
    args = parser.parse_args()
    for name in ("ranks", "pairs", "launches", "lead_ms", "deadline"):
        if getattr(args, name) < 1:
            parser.error(f"--{name.replace('_', '-')}: {getattr(args, name)} is below 1, the least")
    args.what = args.what or (["gemms"] if args.ranks == 1 else ["layer"])
    if "gemms" in args.what and args.ranks > 1:
        parser.error(f"--what: gemms takes --ranks 1, there are {args.ranks}")
    if args.experts % args.ranks:
        parser.error(f"--experts: {args.experts} is no multiple of --ranks {args.ranks}, as the stock layer needs")
    if args.out:
        try:
            open(args.out, "ab").close()  # what cannot be written must not be measured
        except OSError as error:
            parser.error(f"--out: {args.out}: {error.strerror}")
    return parser, args


def main():
    parser, args = parse_arguments()
    try:
        import torch_rank  # behind the arguments: --help, and what is wrong with them, take no PyTorch
    except ModuleNotFoundError as error:
        sys.exit(f"torch_forward.py: {error}; the stock side takes a Python with PyTorch")
    if args.ranks > torch_rank.num_gpus():
        parser.error(f"--ranks: {args.ranks} is outside [1, {torch_rank.num_gpus()}], the GPUs of this machine")
    with tempfile.TemporaryDirectory() as folder:
        try:
            compare(args, folder, torch_rank.serve_rank)
        except (RuntimeError, OSError) as error:
            sys.exit(f"torch_forward.py: {error}")


if __name__ == "__main__":
    main()
