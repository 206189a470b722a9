"""Stock PyTorch against the forward kernel on one GPU: pairs of one run, one side after the other.

    torch_forward.py PROGRAM --hidden 4096 --inter 1536 --experts 16 --topk 8 --tokens 8192 --what gemms layer

PROGRAM is forward_speed, a process of its own. Both sides work on T K rows, equally many for each expert, random data.
  gemms  ours: FC1 with SwiGLU, and FC2. Torch: FC1 and FC2 as two grouped_mm calls, and nothing in between
  layer  ours: head and whole forward. Torch: the layer of torch_ep.py on one rank, its all_to_all included
A pair is a batch of each side, in turn. Prints milliseconds and TFLOP/s; --out appends a line of bench/results for each.
"""
import argparse
import datetime
import json
import statistics
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist

import torch_ep


class Ours:
    """The other process."""

    def __init__(self, args):
        command = [args.program, args.hidden, args.inter, args.experts, args.topk, args.tokens, args.sms]
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self.process.stdout.readline().strip() == "ready", f"{args.program} did not start"

    def ms(self, what, launches):
        self.process.stdin.write(f"{what} {launches}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Torch:
    """The same shapes: T K rows in expert order for the GEMMs, T tokens for the layer."""

    def __init__(self, args):
        def draw(*shape, scale=1.0):
            return ((torch.rand(*shape, device="cuda") * 2 - 1) * scale).bfloat16()

        rows = args.tokens * args.topk
        self.experts = args.experts
        self.w13 = draw(args.experts, 2 * args.inter, args.hidden, scale=0.05)
        self.w2 = draw(args.experts, args.hidden, args.inter, scale=0.05)
        self.tokens = draw(args.tokens, args.hidden)
        self.ids = (torch.arange(rows, device="cuda") % args.experts).view(args.tokens, args.topk)
        self.weights = torch.rand(args.tokens, args.topk, device="cuda")
        self.x = self.tokens[torch.argsort(self.ids.view(-1), stable=True) // args.topk]
        self.a = draw(rows, args.inter)
        self.offs = torch.bincount(self.ids.view(-1), minlength=args.experts).cumsum(0).to(torch.int32)

    def gemms(self):
        torch_ep.grouped_mm(self.x, self.w13.transpose(1, 2), offs=self.offs)
        torch_ep.grouped_mm(self.a, self.w2.transpose(1, 2), offs=self.offs)

    def layer(self):
        torch_ep.moe(self.tokens, self.ids, self.weights, self.w13, self.w2, self.experts, 1)

    @torch.no_grad()
    def ms(self, what, launches):
        run = getattr(self, what)
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        for _ in range(launches):
            run()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / launches


def report(args, what, pairs):
    flops = 6 * args.tokens * args.topk * args.hidden * args.inter
    ratio = statistics.median(stock / ours for stock, ours in pairs)
    stock, ours = (statistics.median(side) for side in zip(*pairs))
    print(f"{what} H{args.hidden} I{args.inter} E{args.experts} K{args.topk} T{args.tokens}: torch {stock:.4f} ms "
          f"({flops / stock / 1e9:.0f} TFLOP/s) ours {ours:.4f} ms ({flops / ours / 1e9:.0f} TFLOP/s) "
          f"torch / ours {ratio:.4f} ({min(a / b for a, b in pairs):.3f} ... {max(a / b for a, b in pairs):.3f})", flush=True)
    if not args.out:
        return
    line = {
        "figure": "gemm_vs_torch" if what == "gemms" else "stock_speedup", "value": round(ratio, 4), "unit": "x",
        "case": f"op=forward,H={args.hidden},I={args.inter},E={args.experts},K={args.topk},P=1,T={args.tokens},s=0,"
                "route=balanced,planner=fixed,exec=mega",
        "samples": [[round(a, 5), round(b, 5)] for a, b in pairs],
        "clock": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "gpu_uuid": f"GPU-{torch.cuda.get_device_properties(0).uuid}", "commit": args.commit,
        "command": " ".join(word.rsplit("/", 1)[-1] for word in sys.argv),
    }
    with open(args.out, "a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def compare(args):
    ours, stock = Ours(args), Torch(args)
    for what in args.what:
        for _ in range(2):
            stock.ms(what, args.launches)
            ours.ms(what, args.launches)
        report(args, what, [(stock.ms(what, args.launches), ours.ms(what, args.launches)) for _ in range(args.pairs)])
    ours.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    for name, default in (("hidden", 4096), ("inter", 1536), ("experts", 16), ("topk", 8), ("tokens", 8192), ("sms", 0),
                          ("pairs", 10), ("launches", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--what", nargs="+", default=["gemms"], choices=["gemms", "layer"])
    parser.add_argument("--commit", default="")
    parser.add_argument("--out")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("nccl", init_method=f"file://{folder}/meet", rank=0, world_size=1)
        compare(args)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
